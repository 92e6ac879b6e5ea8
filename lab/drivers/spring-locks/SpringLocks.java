// Drives two locks of Spring's world on Lettuce, on the first node, as their documentation says: ShedLock's
// RedisLockProvider ("shedlock" on the command line) or Spring Integration's RedisLockRegistry ("registry").
//
// Options of "shedlock": safe_update: whether the provider compares the lock's value before it unlocks or extends
// (its Builder's safeUpdate; without it the provider is made by the constructor that the README shows). Of
// "registry": wait_ms: what tryLock waits at most (0: it tries once); renews: whether the registry has a
// scheduler and so renews its locks by itself, every third of their time to live. Of both, the client's own:
// timeout_ms, connect_timeout_ms.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.SocketOptions;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.dao.DataAccessException;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

public class SpringLocks {
  public static void main(String[] arguments) throws Exception {
    (arguments[0].equals("shedlock") ? new ShedLock() : new Registry()).serve();
  }

  static LettuceConnectionFactory connect(String node, JsonNode options) {
    int colon = node.lastIndexOf(':');
    RedisStandaloneConfiguration server =
        new RedisStandaloneConfiguration(node.substring(0, colon), Integer.parseInt(node.substring(colon + 1)));
    LettuceClientConfiguration.LettuceClientConfigurationBuilder client = LettuceClientConfiguration.builder();
    if (options.has("timeout_ms")) client.commandTimeout(Duration.ofMillis(options.get("timeout_ms").asLong()));
    if (options.has("connect_timeout_ms")) {
      Duration limit = Duration.ofMillis(options.get("connect_timeout_ms").asLong());
      SocketOptions socket = SocketOptions.builder().connectTimeout(limit).build();
      client.clientOptions(ClientOptions.builder().socketOptions(socket).build());
    }
    LettuceConnectionFactory factory = new LettuceConnectionFactory(server, client.build());
    factory.afterPropertiesSet();
    factory.start();
    Wire.opened.add(factory::destroy);
    try {
      factory.getConnection().ping(); // the classes of a client take seconds to load, which no lock should wait for
    } catch (DataAccessException error) {
      System.err.println(node + ": " + error.getMessage());
    }
    return factory;
  }

  static class ShedLock extends Wire<SimpleLock> {
    LockProvider provider;

    @Override
    List<String> options() {
      return List.of("safe_update", "timeout_ms", "connect_timeout_ms");
    }

    @Override
    void hello(JsonNode options, ObjectNode said) {
      said.put("lib", "ShedLock RedisLockProvider").put("node_key", "job-lock:default:{key}");
      said.put("version", version());
      said.putArray("caps").add("extend");
    }

    // Its jar says which version it is in Maven's own file only.
    static String version() {
      String path = "/META-INF/maven/net.javacrumbs.shedlock/shedlock-provider-redis-spring/pom.properties";
      Properties properties = new Properties();
      try (InputStream stream = RedisLockProvider.class.getResourceAsStream(path)) {
        properties.load(stream);
      } catch (IOException | NullPointerException error) {
        return "unknown";
      }
      return properties.getProperty("version");
    }

    @Override
    void open(String client, List<String> nodes, JsonNode options) {
      LettuceConnectionFactory factory = connect(nodes.get(0), options);
      provider = options.has("safe_update")
          ? new RedisLockProvider.Builder(factory).safeUpdate(options.get("safe_update").asBoolean()).build()
          : new RedisLockProvider(factory);
    }

    @Override
    SimpleLock acquire(String key, long ttlMs, ObjectNode said) throws Failure {
      LockConfiguration wanted =
          new LockConfiguration(ClockProvider.now(), key, Duration.ofMillis(ttlMs), Duration.ZERO);
      return provider.lock(wanted).orElseThrow(() -> new Failure("refused", "lock", "it did not get the lock"));
    }

    @Override
    SimpleLock extend(SimpleLock lock, long ttlMs, ObjectNode said) throws Failure {
      Optional<SimpleLock> extended = lock.extend(Duration.ofMillis(ttlMs), Duration.ZERO);
      return extended.orElseThrow(() -> new Failure("refused", "extend", "it did not extend the lock"));
    }

    @Override
    void release(SimpleLock lock) {
      lock.unlock();
    }

    @Override
    void held(SimpleLock lock, ObjectNode said) {
      said.putNull("held");
    }
  }

  static class Registry extends Wire<Registry.Lease> {
    // A grant and the thread that holds it: the registry knows owners by their threads.
    record Lease(String key, DistributedLock lock, Owner owner) {}

    RedisLockRegistry registry;
    long waitMs;

    @Override
    List<String> options() {
      return List.of("wait_ms", "renews", "timeout_ms", "connect_timeout_ms");
    }

    @Override
    void hello(JsonNode options, ObjectNode said) {
      said.put("lib", "Spring Integration RedisLockRegistry").put("node_key", "locks:{key}");
      said.put("version", RedisLockRegistry.class.getPackage().getImplementationVersion());
      said.putArray("caps").add("extend");
      if (options.path("renews").asBoolean()) said.withArray("caps").add("renews");
    }

    @Override
    void open(String client, List<String> nodes, JsonNode options) {
      registry = new RedisLockRegistry(connect(nodes.get(0), options), "locks");
      waitMs = options.path("wait_ms").asLong(0);
      if (options.path("renews").asBoolean()) {
        ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
        scheduler.initialize();
        opened.add(scheduler::shutdown);
        registry.setRenewalTaskScheduler(scheduler);
      }
    }

    @Override
    Lease acquire(String key, long ttlMs, ObjectNode said) throws Exception {
      DistributedLock lock = registry.obtain(key);
      Owner owner = new Owner();
      boolean acquired = false;
      try {
        acquired = owner.call(() -> lock.tryLock(Duration.ofMillis(waitMs), Duration.ofMillis(ttlMs)));
      } finally {
        if (!acquired) owner.end();
      }
      if (!acquired) throw new Failure("refused", "tryLock", "it did not get the lock");
      return new Lease(key, lock, owner);
    }

    // The registry says by one exception that the lock is not ours; what its client throws goes through.
    @Override
    Lease extend(Lease lease, long ttlMs, ObjectNode said) throws Exception {
      try {
        lease.owner.call(() -> {
          registry.renewLock(lease.key, Duration.ofMillis(ttlMs));
          return null;
        });
      } catch (IllegalStateException notOurs) {
        throw Failure.refused(notOurs);
      }
      return lease;
    }

    @Override
    void release(Lease lease) throws Exception {
      try {
        lease.owner.call(() -> {
          lease.lock.unlock();
          return null;
        });
      } catch (ConcurrentModificationException | IllegalStateException notOurs) {
        throw Failure.refused(notOurs);
      }
    }

    @Override
    void held(Lease lease, ObjectNode said) {
      said.putNull("held");
    }
  }
}
