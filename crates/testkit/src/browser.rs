//! Drives Chromium over its debugging pipe: opens pages, evaluates expressions and records errors.
//!
//! Owns the Chromium process and its profile; dropping the guard removes both. Knows nothing of any page.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::signal::{Seen, wait_until_blocking};

const DEADLINE: Duration = Duration::from_secs(30);
/// How long Chromium may take to exit.
const GRACE: Duration = Duration::from_secs(5);

/// Chromium reads commands from file descriptor 3 and writes answers to 4; each message ends with NUL.
const START: &str = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir=\"$0\" --remote-debugging-pipe about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";

pub struct Browser {
    child: Child,
    to: RefCell<ChildStdin>,
    from: Receiver<Value>,
    profile: PathBuf,
    last: Cell<u64>,
    /// Exceptions and policy violations of all pages.
    complaints: RefCell<Vec<String>>,
}

impl Browser {
    pub fn start() -> Browser {
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("windlass-browser-{}-{nanos}", std::process::id());
        let profile = std::env::temp_dir().join(name);
        let mut command = Command::new("sh");
        command.args(["-c", START]).arg(&profile).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh");
        let to = child.stdin.take().unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            loop {
                let mut message = Vec::new();
                match pipe.read_until(0, &mut message) {
                    Ok(1..) if message.pop() == Some(0) => {
                        let _ = send.send(serde_json::from_slice(&message).unwrap_or_default());
                    }
                    _ => return,
                }
            }
        });
        let (last, complaints) = (Cell::new(0), RefCell::default());
        Browser { child, to: RefCell::new(to), from, profile, last, complaints }
    }

    /// Opens a page with this width and waits until it is loaded.
    pub fn open(&self, url: &str, width: u32) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session =
            self.call(None, "Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        let page = Page { browser: self, session };
        page.call("Runtime.enable", json!({}));
        page.call("Log.enable", json!({}));
        page.call("Page.enable", json!({}));
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.call("Emulation.setDeviceMetricsOverride", size);
        page.call("Page.navigate", json!({ "url": url }));
        page.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
        page
    }

    /// Errors of all pages so far.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }

    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut to = self.to.borrow_mut();
        to.write_all(message.to_string().as_bytes())
            .and_then(|()| to.write_all(&[0]))
            .and_then(|()| to.flush())
            .expect("Chromium ended; is it installed?");
        loop {
            let answer = self.from.recv_timeout(DEADLINE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == json!(id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&self, event: &Value) {
        let said = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &event["params"]["exceptionDetails"],
            // Failed requests are left out: a page shows them itself. Any other log entry is an error.
            Some("Log.entryAdded") if event["params"]["entry"]["source"] != "network" => {
                &event["params"]["entry"]["text"]
            }
            _ => return,
        };
        self.complaints.borrow_mut().push(said.to_string());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium and its child processes must end before the profile can be removed.
        let close = json!({ "id": 0, "method": "Browser.close" }).to_string() + "\0";
        let _ = self.to.borrow_mut().write_all(close.as_bytes());
        let begun = Instant::now();
        while begun.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

pub struct Page<'a> {
    browser: &'a Browser,
    session: String,
}

impl Page<'_> {
    fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// The value of an expression; a promise is awaited.
    pub fn eval(&self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}\n{answer}");
        answer["result"]["value"].clone()
    }

    pub fn text(&self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the expression is true.
    #[track_caller]
    pub fn wait(&self, expression: &str) {
        let asked = format!("Boolean({expression})");
        wait_until_blocking(expression, DEADLINE, || match self.eval(&asked) == json!(true) {
            true => Seen::Yes(()),
            false => {
                let shown = self.text("document.body.innerText");
                Seen::NotYet(format!("{shown}\n{:?}", self.browser.complaints()))
            }
        });
    }

    pub fn press_escape(&self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27 });
            self.call("Input.dispatchKeyEvent", key);
        }
    }
}
