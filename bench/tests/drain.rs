//! Runs the whole program: a real server, a worker process, one line of JSON.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_line_says_what_was_drained_beside_raw() {
    let server = std::env::var("JOBS_TEST_DATABASE_URL")
        .expect("JOBS_TEST_DATABASE_URL names the tests' server; `cargo xtask test` sets it");
    let output = Command::new(env!("CARGO_BIN_EXE_jobs-bench"))
        .args(["drain", "--n", "500", "--runs", "1", "--json", "--only", "1 process, async, history kept"])
        .env("DATABASE_URL", server)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");

    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [line] = lines.as_slice() else { panic!("one line was asked for: {text}") };
    assert_eq!((&line["measure"], &line["n"], &line["unit"]), (&"drain".into(), &500.into(), &"jobs/s".into()));
    for side in ["ours", "raw"] {
        let median = line[side].as_f64().unwrap();
        assert!(median > 0.0, "{text}");
        assert_eq!(line["runs"][side].as_array().map(Vec::len), Some(1));
        assert_eq!((line["min"][side].as_f64(), line["max"][side].as_f64()), (Some(median), Some(median)));
    }
    assert!(line["ratio"].as_f64().unwrap() > 0.0, "{text}");
    assert!(line["settings"]["server_version"].is_string(), "{text}");
}

#[test]
fn without_a_server_it_says_what_to_set() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_jobs-bench")).arg("drain").env_remove("DATABASE_URL").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("DATABASE_URL is not set"));
}
