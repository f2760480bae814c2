//! Opens files and pages of loopback in Chromium, without a network, and reports what it loads and what fails: over the DevTools
//! protocol, whose messages are JSON texts that end with a NUL, on file descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A message that takes longer never comes.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a condition in the page is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Without a sandbox, because tests may run as root; without the requests that a browser sends by itself; and without names.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage \
    --disable-site-isolation-trials --disable-features=IsolateOrigins,site-per-process \
    --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' --user-data-dir=\"$1\" --remote-debugging-pipe about:blank \
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
        for domain in ["Network", "Page", "Log", "Runtime"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file and waits until everything it needs is loaded. Returns the URLs that were requested, and the failures.
    pub fn open(&mut self, file: &Path) -> (Vec<String>, Vec<String>) {
        self.navigate(url::Url::from_file_path(file).expect("an absolute path").as_str());
        // Fonts are loaded when text needs them.
        self.evaluate("document.fonts.ready.then(() => true)");
        (self.requests(), self.failures())
    }

    /// Opens a URL and waits until it is loaded.
    pub fn navigate(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": url}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.message();
            self.events.push(event);
        }
    }

    /// The URLs that were requested since the page was opened.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| text(&event["params"]["request"]["url"])).collect()
    }

    /// What failed since the page was opened: requests, scripts, what the page wanted to do and may not. Also opened dialogs.
    pub fn failures(&self) -> Vec<String> {
        let is_failure = |event: &&Value| {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Network.loadingFailed" | "Runtime.exceptionThrown" | "Page.javascriptDialogOpening" => true,
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                "Runtime.consoleAPICalled" => parameters["type"] == "error",
                _ => false,
            }
        };
        self.events.iter().filter(is_failure).map(|event| event["params"].to_string()).collect()
    }

    /// Forgets what was reported so far.
    pub fn forget(&mut self) {
        self.events.clear();
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        if !self.becomes_true(expression, MESSAGE_TIMEOUT) {
            panic!("timeout: {expression}; the page: {}", self.evaluate("document.body.innerText"));
        }
    }

    /// Whether an expression in the page becomes true within this time.
    pub fn becomes_true(&mut self, expression: &str, timeout: Duration) -> bool {
        let started = Instant::now();
        while self.evaluate(expression) != true {
            if started.elapsed() > timeout {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Clicks on the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const element = document.querySelector('{selector}'); element.scrollIntoView({{ block: 'center' }}); \
             const box = element.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let middle = self.evaluate(&middle);
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses and releases a key: Tab, Enter or Escape.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => (27, ""),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The value of an expression in the page; of a promise, when it is fulfilled.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let evaluate = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let evaluated = self.call("Runtime.evaluate", evaluate);
        assert!(evaluated["exceptionDetails"].is_null(), "{expression}: {evaluated}");
        evaluated["result"]["value"].clone()
    }

    /// Calls a method of the DevTools protocol, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
