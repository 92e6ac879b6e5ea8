// The driver protocol (PROTOCOL.md) for drivers in Rust on tokio: each command runs in a task of its own, and the end
// of the input ends the driver.

use std::future::Future;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What an operation ends with if not with an answer; kind, name and message as in the protocol.
pub struct Failure {
    pub kind: &'static str,
    pub name: String,
    pub message: String,
    /// No node said no, they only kept silent.
    pub silent: bool,
}

impl Failure {
    pub fn error(name: &str, message: String) -> Self {
        Self {
            kind: "error",
            name: name.to_string(),
            message,
            silent: false,
        }
    }
}

pub type Answer = Result<Value, Failure>;

/// Answer commands until the input ends.
pub async fn serve<F, R>(run: F)
where
    F: Fn(Value) -> R,
    R: Future<Output = Answer> + Send + 'static,
{
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let command: Value = serde_json::from_str(&line).expect("a command of the lab");
        let id = command["id"].clone();
        let ended = run(command);
        tokio::spawn(async move { say(id, ended.await) });
    }
}

fn say(id: Value, ended: Answer) {
    let mut said = match ended {
        Ok(answer) => answer,
        Err(Failure {
            kind,
            name,
            message,
            silent,
        }) => {
            json!({ "kind": kind, "error": name, "message": message, "silent": silent })
        }
    };
    said["ok"] = json!(said.get("kind").is_none());
    said["id"] = id;
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{said}").and_then(|()| out.flush());
    written.expect("the lab reads");
}

/// A field that is text; empty if it is not there.
pub fn text<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields[name].as_str().unwrap_or_default()
}

/// A field that is a whole number.
pub fn number(fields: &Value, name: &str) -> Option<u64> {
    fields[name].as_u64()
}

/// The wall clock, in ms since 1970.
pub fn wall_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}
