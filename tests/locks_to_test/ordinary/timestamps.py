"""The lock of old documentation: the key says when it ends, and is replaced when that is over."""

import time


class SetnxGetset:
    def __init__(self, client, name, timeout=10):
        self.client, self.name, self.timeout = client, name, timeout

    def acquire(self):
        ends = time.time() + self.timeout + 1
        if self.client.setnx(self.name, ends):
            return True
        current = self.client.get(self.name)
        if current and float(current) < time.time():
            old = self.client.getset(self.name, ends)
            return old == current
        return False

    def release(self):
        self.client.delete(self.name)
