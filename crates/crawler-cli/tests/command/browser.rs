//! Opens files in Chromium without a network, and reports what it loads and what fails: over the DevTools protocol, whose
//! messages are JSON texts that end with a NUL, on file descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A message that takes longer never comes.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Without a sandbox, because tests may run as root; without the requests that a browser sends by itself; and without names.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage \
    --disable-site-isolation-trials --disable-features=IsolateOrigins,site-per-process \
    --host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir=\"$1\" --remote-debugging-pipe about:blank \
    3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// What was reported since the page was opened.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    pub fn start() -> Browser {
        let profile = TempDir::new().expect("a temporary directory");
        let mut child = Command::new("sh")
            .args(["-c", START, "sh"])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("messages are JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            input,
            messages,
            session: None,
            last_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Network", "Page", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file and waits until everything it needs is loaded. Returns the URLs that were requested, and the failures.
    pub fn open(&mut self, file: &Path) -> (Vec<String>, Vec<String>) {
        self.events.clear();
        let url = url::Url::from_file_path(file).expect("an absolute path");
        self.call("Page.navigate", json!({"url": url.as_str()}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.message();
            self.events.push(event);
        }
        // Fonts are loaded when text needs them.
        self.evaluate("document.fonts.ready.then(() => true)");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (mut requests, mut failures) = (Vec::new(), Vec::new());
        for event in &self.events {
            let (method, parameters) = (text(&event["method"]), &event["params"]);
            match method.as_str() {
                "Network.requestWillBeSent" => requests.push(text(&parameters["request"]["url"])),
                "Network.loadingFailed" => failures.push(parameters.to_string()),
                "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                    failures.push(parameters.to_string())
                }
                _ => {}
            }
        }
        (requests, failures)
    }

    /// The value of an expression in the page; of a promise, when it is fulfilled.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let evaluate = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        self.call("Runtime.evaluate", evaluate)["result"]["value"].clone()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser runs");
        loop {
            let mut answer = self.message();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn message(&mut self) -> Value {
        self.messages.recv_timeout(MESSAGE_TIMEOUT).expect("a message of the browser")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
