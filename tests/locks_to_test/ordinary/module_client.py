"""A lock whose client is a variable of its module, and whose token is the name of the host."""

import socket

import redis

connection = redis.Redis(host="redis.example", decode_responses=True)
UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class CronLock:
    def __init__(self, name, ttl_seconds=10):
        self.name, self.ttl_seconds = name, ttl_seconds
        self.host = socket.gethostname()

    def acquire(self):
        return bool(connection.set(self.name, self.host, nx=True, ex=self.ttl_seconds))

    def release(self):
        connection.eval(UNLOCK, 1, self.name, self.host)
