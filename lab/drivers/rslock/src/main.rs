// Drives Rust rslock on tokio, as its README says. Options: call: "lock" (the default: so many tries, then no) or
// "acquire", which tries until it has the lock; and the library's own retry_count, which counts the first try as
// well, and retry_delay_ms. Its Redis client's time-outs cannot be set from outside.

mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rslock::{Lock, LockError, LockManager};
use serde_json::{json, Value};
use wire::{number, text, Answer, Failure};

const OPTIONS: [&str; 3] = ["call", "retry_count", "retry_delay_ms"];
const RETRY_COUNT: u64 = 3;
const RETRY_DELAY_MS: u64 = 200;

#[derive(Clone, Default)]
struct Driver {
    opened: Arc<Mutex<Option<(LockManager, bool)>>>,
    leases: Arc<Mutex<HashMap<String, Arc<Lock>>>>,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let driver = Driver::default();
    runtime.block_on(wire::serve(move |command| {
        let driver = driver.clone();
        async move { driver.run(command).await }
    }));
    runtime.shutdown_background(); // nothing is released
}

impl Driver {
    async fn run(&self, command: Value) -> Answer {
        match text(&command, "op") {
            "hello" => hello(&command["options"]),
            "open" => self.open(&command),
            "acquire" => self.acquire(&command).await,
            "extend" => self.extend(&command).await,
            "release" => self.release(&command).await,
            "clock" => Ok(json!({ "wall_ms": wire::wall_ms() })),
            other => Err(Failure::error(
                "UnknownOp",
                format!("there is no operation {other}"),
            )),
        }
    }

    fn open(&self, command: &Value) -> Answer {
        let nodes = command["nodes"].as_array().expect("nodes");
        let uris = nodes
            .iter()
            .map(|node| format!("redis://{}/", node.as_str().expect("a node")));
        let options = &command["options"];
        let mut manager = LockManager::new(uris.collect::<Vec<_>>());
        if options.get("retry_count").is_some() || options.get("retry_delay_ms").is_some() {
            let count = number(options, "retry_count").unwrap_or(RETRY_COUNT);
            let delay_ms = number(options, "retry_delay_ms").unwrap_or(RETRY_DELAY_MS);
            manager.set_retry(count as u32, Duration::from_millis(delay_ms));
        }
        let waits = text(options, "call") == "acquire";
        *self.opened.lock().expect("no panic") = Some((manager, waits));
        Ok(json!({}))
    }

    async fn acquire(&self, command: &Value) -> Answer {
        let (manager, waits) = self.opened()?;
        let (key, ttl) = (text(command, "key"), ttl(command));
        let lock = if waits {
            manager.acquire_no_guard(key, ttl).await
        } else {
            manager.lock(key, ttl).await
        };
        let lock = lock.map_err(refused)?;
        let mut leases = self.leases.lock().expect("no panic");
        let lease = format!("h{}", leases.len() + 1);
        let token = String::from_utf8_lossy(&lock.val).into_owned();
        let claimed_ms = lock.validity_time;
        leases.insert(lease.clone(), Arc::new(lock));
        Ok(json!({ "lease": lease, "token": token, "claimed_ms": claimed_ms, "fence": null }))
    }

    async fn extend(&self, command: &Value) -> Answer {
        let (manager, _) = self.opened()?;
        let lock = self.lease(command)?;
        let extended = manager.extend(&lock, ttl(command)).await.map_err(refused)?;
        let claimed_ms = extended.validity_time;
        let mut leases = self.leases.lock().expect("no panic");
        leases.insert(text(command, "lease").to_string(), Arc::new(extended));
        Ok(json!({ "claimed_ms": claimed_ms }))
    }

    async fn release(&self, command: &Value) -> Answer {
        let (manager, _) = self.opened()?;
        manager.unlock(self.lease(command)?.as_ref()).await;
        Ok(json!({}))
    }

    fn opened(&self) -> Result<(LockManager, bool), Failure> {
        let opened = self.opened.lock().expect("no panic");
        opened
            .clone()
            .ok_or_else(|| Failure::error("NotOpen", "open comes first".to_string()))
    }

    fn lease(&self, command: &Value) -> Result<Arc<Lock>, Failure> {
        let name = text(command, "lease");
        let leases = self.leases.lock().expect("no panic");
        let unknown = || Failure::error("UnknownLease", format!("no lease is called {name}"));
        leases.get(name).cloned().ok_or_else(unknown)
    }
}

fn hello(options: &Value) -> Answer {
    let named = options.as_object().into_iter().flatten();
    for (name, _) in named {
        if !OPTIONS.contains(&name.as_str()) {
            return Err(Failure::error(
                "BadOption",
                format!("{name} is none of {OPTIONS:?}"),
            ));
        }
    }
    let mut caps = vec!["extend", "validity", "clock"];
    if number(options, "retry_count") == Some(1) && text(options, "call") != "acquire" {
        caps.push("single-attempt");
    }
    Ok(json!({ "lib": "rslock", "version": env!("RSLOCK_VERSION"), "caps": caps }))
}

fn ttl(command: &Value) -> Duration {
    Duration::from_millis(number(command, "ttl_ms").expect("ttl_ms"))
}

// How the library says no. One that took longer than the lease waited for nodes, and has undone nothing: an extended
// lease may last.
fn refused(error: LockError) -> Failure {
    let silent = matches!(error, LockError::TtlExceeded);
    let no = silent || matches!(error, LockError::Unavailable);
    let name = format!("{error:?}");
    let name = name
        .split(['(', ' '])
        .next()
        .unwrap_or("LockError")
        .to_string();
    Failure {
        kind: if no { "refused" } else { "error" },
        name,
        message: error.to_string(),
        silent,
    }
}
