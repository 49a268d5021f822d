//! A real browser, driven through chromedriver's HTTP interface. `cargo xtask test` installs both.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use programs::Client;
use serde_json::{Value, json};
use support::{until, within};
use tempfile::TempDir;

/// The key under which WebDriver returns elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The time limit of each command. It only guards against hanging.
const LIMIT: Duration = Duration::from_secs(300);

/// A browser with one window.
pub(crate) struct Browser {
    /// Of the driver. It closes connections, so each command opens one.
    address: String,
    session: String,
    driver: Child,
    _profile: TempDir,
}

/// A variable that `cargo xtask test` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`, which installs a browser"))
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new(variable("JOBS_TEST_CHROMEDRIVER"))
            .arg("--port=0")
            // Both are killed at the end, and leave their temporary files to whoever removes the profile.
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of their own for the driver and the processes of its browser.
            .process_group(0)
            .spawn()
            .expect("chromedriver can be started");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let line =
            lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("successfully on port"))).unwrap().unwrap();
        let port: String = line.rsplit_once("on port ").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
        // It must not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let address = format!("127.0.0.1:{port}");
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            // A scroll bar would take a part of the width in pictures.
            "--hide-scrollbars",
            "--lang=en-US",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        let options = json!({ "binary": variable("JOBS_TEST_CHROMIUM"), "args": arguments });
        let limit = u64::try_from(LIMIT.as_millis()).unwrap();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": limit, "pageLoad": limit },
        } } });
        let (status, answer) = Client::connect(&address).await.post("/session", wanted).await;
        assert!(status.is_success(), "the browser does not start: {answer}");
        let session = answer["value"]["sessionId"].as_str().unwrap().to_owned();
        let mut browser = Self { address, session, driver, _profile: profile };
        browser.size(1280, 900).await;
        browser
    }

    async fn command(&mut self, path: &str, body: Value) -> Value {
        self.try_command(path, body).await.unwrap_or_else(|problem| panic!("{problem}"))
    }

    async fn try_command(&mut self, path: &str, body: Value) -> Result<Value, String> {
        let path = format!("/session/{}/{path}", self.session);
        let mut client = Client::connect(&self.address).await;
        let sent = client.post(&path, body.clone());
        let (status, answer) = within(LIMIT, "the browser", sent).await;
        if !status.is_success() {
            return Err(format!("{path} {body}: {answer}"));
        }
        Ok(answer["value"].clone())
    }

    /// A command of the browser's own protocol.
    pub(crate) async fn cdp(&mut self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    pub(crate) async fn open(&mut self, url: &str) {
        self.command("url", json!({ "url": url })).await;
    }

    pub(crate) async fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Chooses `dark` or `light`.
    pub(crate) async fn scheme(&mut self, name: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": name }]);
        self.cdp("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Switches the scripts of pages off or on.
    pub(crate) async fn scripts(&mut self, on: bool) {
        self.cdp("Emulation.setScriptExecutionDisabled", json!({ "value": !on })).await;
    }

    /// Runs a script of the test in the page. It works although scripts of pages are off.
    pub(crate) async fn run(&mut self, script: &str) -> Value {
        self.command("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// The result of a script of the test that calls its last argument.
    pub(crate) async fn run_async(&mut self, script: &str) -> Value {
        self.command("execute/async", json!({ "script": script, "args": [] })).await
    }

    /// The first element of a selector, which must exist.
    async fn element(&mut self, selector: &str) -> String {
        let found = self.command("element", json!({ "using": "css selector", "value": selector })).await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    pub(crate) async fn click(&mut self, selector: &str) {
        // A page that changes by itself may replace the element between the two commands.
        until(&format!("a click on {selector}"), async || {
            let element = self.element(selector).await;
            match self.try_command(&format!("element/{element}/click"), json!({})).await {
                Err(problem) if problem.contains("stale element") => None,
                clicked => {
                    clicked.unwrap();
                    Some(())
                }
            }
        })
        .await;
    }

    /// Moves the pointer to an element.
    pub(crate) async fn point(&mut self, selector: &str) {
        let element = json!({ ELEMENT: self.element(selector).await });
        let actions = json!([{ "type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": element }]);
        let pointer =
            json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions });
        self.command("actions", json!({ "actions": [pointer] })).await;
    }

    pub(crate) async fn write(&mut self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.command(&format!("element/{element}/value"), json!({ "text": text })).await;
    }

    /// Sends a key to the page.
    pub(crate) async fn key(&mut self, key: &str) {
        let actions = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.command("actions", json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] })).await;
    }

    /// The text of an element as it is seen. Empty if there is none.
    pub(crate) async fn text(&mut self, selector: &str) -> String {
        let script = format!("const e = document.querySelector({}); return e ? e.innerText : '';", json!(selector));
        self.run(&script).await.as_str().unwrap().to_owned()
    }

    pub(crate) async fn path(&mut self) -> String {
        self.run("return location.pathname + location.search;").await.as_str().unwrap().to_owned()
    }

    /// Waits until an element has this text.
    pub(crate) async fn shows(&mut self, selector: &str, text: &str) {
        until(&format!("{text:?} in {selector}"), async || self.text(selector).await.contains(text).then_some(()))
            .await;
    }

    /// What the browser has complained about since the last call: errors of scripts, and violations of the policy.
    pub(crate) async fn complaints(&mut self) -> Vec<String> {
        let log = self.command("se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(ToString::to_string)
            .collect()
    }

    /// A picture of the window, or of the whole page, as PNG in base64.
    pub(crate) async fn picture(&mut self, whole: bool) -> String {
        let picture =
            self.cdp("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": whole })).await;
        picture["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The whole group, because a driver that ends may leave its browser running.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.driver.id())]).status();
        let _ = self.driver.wait();
    }
}
