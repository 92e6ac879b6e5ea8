// The driver protocol (PROTOCOL.md) for drivers in Java, of which L is what the library gives for a lease. Each command
// runs in a thread of its own, which `cancel` interrupts; the end of the input ends the driver, and releases nothing.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

abstract class Wire<L> {
  static final ObjectMapper JSON = new ObjectMapper();
  static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  // What an operation ends with if not with an answer; kind and name as in the protocol.
  @SuppressWarnings("serial")
  static class Failure extends Exception {
    final String kind;
    final String name;

    Failure(String kind, String name, String message) {
      super(message);
      this.kind = kind;
      this.name = name;
    }

    // A library's exception that is a clean no.
    static Failure refused(Exception no) {
      return new Failure("refused", no.getClass().getSimpleName(), no.getMessage());
    }
  }

  // A thread of its own for a lease whose library knows owners by their threads.
  static class Owner {
    private final ExecutorService thread = Executors.newSingleThreadExecutor();

    // What this thread does; if the caller is interrupted, it is, and the library says what comes of that.
    <T> T call(Callable<T> what) throws Exception {
      CompletableFuture<Thread> begun = new CompletableFuture<>();
      Future<T> done = thread.submit(() -> {
        begun.complete(Thread.currentThread());
        return what.call();
      });
      while (true) {
        try {
          return done.get();
        } catch (InterruptedException cancelled) {
          begun.join().interrupt();
        } catch (ExecutionException error) {
          if (error.getCause() instanceof Exception cause) throw cause;
          throw error;
        }
      }
    }

    Owner() {
      opened.add(this::end);
    }

    void end() {
      thread.shutdown();
    }
  }

  // What `close` closes.
  static final Queue<AutoCloseable> opened = new ConcurrentLinkedQueue<>();

  // Where there are Sentinels: their addresses, and the name of the master.
  List<String> sentinels = List.of();
  String service = "";

  private final Map<String, L> leases = new ConcurrentHashMap<>();
  private final AtomicInteger granted = new AtomicInteger();
  private final Map<Long, Thread> running = new ConcurrentHashMap<>(); // by command
  private final Set<Long> cancelled = ConcurrentHashMap.newKeySet();

  // Options that the driver takes. With `one_object` one lock object of the library serves all leases of a key.
  abstract List<String> options();

  // Puts the library, its version and what it can do, beside `clock`, `cancel`, `tasks` and `one-object`.
  abstract void hello(JsonNode options, ObjectNode said);

  abstract void open(String client, List<String> nodes, JsonNode options) throws Exception;

  // Puts the token, the claim and the fence.
  abstract L acquire(String key, long ttlMs, ObjectNode said) throws Exception;

  // Of a lock that can `read-write`, which says who asks: a reader, or the writer.
  L acquire(String key, long ttlMs, boolean reads, ObjectNode said) throws Exception {
    return acquire(key, ttlMs, said);
  }

  // Returns the lease that takes the place of the one that it was given.
  abstract L extend(L lease, long ttlMs, ObjectNode said) throws Exception;

  abstract void release(L lease) throws Exception;

  abstract void held(L lease, ObjectNode said) throws Exception;

  void serve() throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode command = JSON.readTree(line);
      long id = command.get("id").longValue();
      Thread thread = new Thread(() -> OUT.println(answer(id, command))); // no pool, whose threads would wait for more
      running.put(id, thread);
      thread.start();
    }
    Runtime.getRuntime().halt(0); // nothing is released
  }

  private ObjectNode answer(long id, JsonNode command) {
    ObjectNode said = JSON.createObjectNode();
    try {
      run(command, said);
      said.put("ok", true);
    } catch (Failure failure) {
      refuse(said, failure.kind, failure.name, failure.getMessage());
    } catch (Throwable error) {
      error.printStackTrace();
      refuse(said, "error", error.getClass().getSimpleName(), String.valueOf(error.getMessage()));
    }
    running.remove(id);
    // Whatever the library makes of it, it was cancelled, and may have had an effect.
    if (cancelled.remove(id) && said.has("kind")) said.put("kind", "error");
    return said.put("id", id);
  }

  private static void refuse(ObjectNode said, String kind, String name, String message) {
    said.removeAll();
    said.put("ok", false).put("kind", kind).put("error", name).put("message", message);
  }

  private void run(JsonNode command, ObjectNode said) throws Exception {
    String op = command.path("op").asText();
    switch (op) {
      case "hello" -> {
        refuseUnknown(command.path("options"));
        hello(command.path("options"), said);
        said.withArray("caps").add("clock").add("cancel").add("tasks");
        if (options().contains("one_object")) said.withArray("caps").add("one-object");
      }
      case "open" -> {
        sentinels = texts(command.path("sentinels"));
        service = command.path("service").asText();
        open(command.path("client").asText(), texts(command.get("nodes")), command.path("options"));
      }
      case "acquire" -> {
        said.putNull("token").putNull("claimed_ms").putNull("fence");
        boolean reads = command.path("mode").asText().equals("read");
        L lease = acquire(command.get("key").asText(), command.get("ttl_ms").asLong(), reads, said);
        String name = "h" + granted.incrementAndGet();
        leases.put(name, lease);
        said.put("lease", name);
      }
      case "extend" -> {
        said.putNull("claimed_ms");
        leases.put(name(command), extend(leased(command), command.get("ttl_ms").asLong(), said));
      }
      case "release" -> release(leased(command));
      case "held" -> {
        said.putNull("claimed_ms");
        held(leased(command), said);
      }
      case "cancel" -> cancel(command.path("command").longValue());
      case "close" -> close();
      case "clock" -> said.put("wall_ms", System.currentTimeMillis());
      default -> throw new Failure("error", "UnknownOp", "there is no operation " + op);
    }
  }

  private void cancel(long id) {
    Thread thread = running.get(id);
    if (thread == null) return; // it is answered
    cancelled.add(id);
    thread.interrupt();
  }

  private static List<String> texts(JsonNode several) {
    List<String> found = new ArrayList<>();
    several.forEach(each -> found.add(each.asText()));
    return found;
  }

  private void close() throws Exception {
    for (AutoCloseable each = opened.poll(); each != null; each = opened.poll()) each.close();
    leases.clear();
    granted.set(0);
  }

  private void refuseUnknown(JsonNode options) throws Failure {
    Iterator<String> names = options.fieldNames();
    while (names.hasNext()) {
      String name = names.next();
      if (!options().contains(name)) throw new Failure("error", "BadOption", name + " is none of " + options());
    }
  }

  private static String name(JsonNode command) {
    return command.path("lease").asText();
  }

  private L leased(JsonNode command) throws Failure {
    L lease = leases.get(name(command));
    if (lease == null) throw new Failure("error", "UnknownLease", "no lease is called " + name(command));
    return lease;
  }
}
