use super::*;

fn at() -> DateTime<Utc> {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

#[test]
fn a_line_needs_a_kind_and_arguments_only() {
    let job = read(br#"{"kind":"charge","args":{"card":1e2, "x":"\u0041"}}"#, Others::Refuse, at()).unwrap().unwrap();
    assert_eq!((&*job.kind, &*job.queue, job.args.as_str()), ("charge", "default", r#"{"card":1e2, "x":"\u0041"}"#));
    let line = br#"{"id":7,"kind":"a","queue":"mail","state":"scheduled","priority":-3,"attempt":2,"max_attempts":4,
        "run_at":"2026-01-31T08:00:00Z","enqueued_at":"x","tags":["vip"],"args":null,"last_error":"no"}"#;
    let job = read(line, Others::Refuse, at()).unwrap().unwrap();
    assert_eq!((&*job.queue, job.priority, job.max_attempts, job.tags.len()), ("mail", -3, 4, 1));
    assert!(matches!(job.run_at, RunAt::At(_)));
    let line = br#"{"kind":"a","args":{},"rules":[{"name":"stripe","key":"[7]","rule":{"concurrency":{"most":3}}}]}"#;
    let rules = read(line, Others::Refuse, at()).unwrap().unwrap().rules;
    assert_eq!((&*rules[0].name, &*rules[0].key, rules[0].rule.most()), ("stripe", "[7]", Some(3)));
}

#[test]
fn a_unique_key_and_the_time_of_an_expiry_are_read() {
    let job = |more: &str| read(format!(r#"{{"kind":"a","args":{{}},{more}}}"#).as_bytes(), Others::Refuse, at());
    let key = |more: &str| {
        let key = job(&format!(r#""unique_key":{{"name":"a","key":"[7]"{more}}}"#)).unwrap().unwrap().unique;
        key.map(|key| (key.key.clone(), key.rule.until, key.rule.within))
    };
    assert_eq!(key(""), Some(("[7]".to_owned(), Until::Finished, None)));
    let until = r#","until_started":true,"until":"2026-05-01T12:01:00Z","in_effect":true"#;
    assert_eq!(key(until), Some(("[7]".to_owned(), Until::Started, Some(Duration::from_secs(60)))));
    assert_eq!(key(r#","until":"2026-05-01T11:59:00Z""#), None, "its time is over");
    let expires = |more: &str| job(more).unwrap().unwrap().expires.unwrap();
    assert_eq!(expires(r#""start_by":"2026-05-01T12:00:05Z""#), Duration::from_secs(5));
    let late = r#""run_at":"2026-05-01T13:00:00Z","start_by":"2026-05-01T13:00:05Z""#;
    assert_eq!(expires(late), Duration::from_secs(5));
    let past = r#""run_at":"2026-05-01T11:00:00Z","start_by":"2026-05-01T12:00:07Z""#;
    assert_eq!(expires(past), Duration::from_secs(7));
    assert_eq!(expires(r#""start_by":"2026-05-01T11:00:00Z""#), Duration::from_millis(1));
}

#[test]
fn a_hostile_line_is_refused_with_the_reason() {
    let rule = |name: &str, key: &str, rule: &str| {
        format!(r#"{{"kind":"a","args":{{}},"rules":[{{"name":"{name}","key":"{key}","rule":{rule}}}]}}"#)
    };
    let deep = format!(r#"{{"kind":"a","args":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let large = format!(r#"{{"kind":"a","args":"{}"}}"#, "x".repeat(300_000));
    for (line, part) in [
        ("", "not an object"),
        ("no json", "not an object"),
        (r#"["a",{}]"#, "not an object"),
        ("{", "EOF"),
        ("{kind", "key must be a string"),
        (r#"{"kind":"a"}"#, "missing field `args`"),
        (r#"{"args":{}}"#, "missing field `kind`"),
        (r#"{"kind":"a","args":{},"prioriy":1}"#, "unknown field `prioriy`"),
        (r#"{"kind":"a","kind":"b","args":{}}"#, "duplicate field"),
        (r#"{"kind":"a","args":{},"priority":99999}"#, "99999"),
        (r#"{"kind":"a","args":{},"max_attempts":0}"#, "max_attempts must be from 1"),
        (r#"{"kind":"a","args":{},"run_at":"soon"}"#, "column"),
        (r#"{"kind":"","args":{}}"#, "is empty"),
        (r#"{"kind":"a\u0000","args":{}}"#, "NUL"),
        (r#"{"kind":"a","args":{"x":"\ud800"}}"#, "args: "),
        (r#"{"kind":"a","args":{}} {}"#, "trailing characters"),
        (r#"{"kind":"a","args":{},"state":"completed"}"#, "--others skip"),
        (r#"{"kind":"a","args":{},"state":"dead"}"#, "unknown variant"),
        (r#"{"kind":"a","args":{},"redacted":true}"#, "secret arguments"),
        (&rule("l", "[]", r#"{"concurrency":{"most":0}}"#), "rules: a limit allows 1 to"),
        (&rule("", "[]", r#"{"concurrency":{"most":1}}"#), "rules: the name"),
        (&rule("l", "", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
        (&rule("l", "seven", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
        (&rule("l", "{}", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
        (&rule("l", "[1.0]", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
        (&rule("l", "sha256:7", r#"{"concurrency":{"most":1}}"#), "rules: the key"),
        (&rule("l", "[]", r#"{"concurrency":{"most":1,"max":2}}"#), "unknown field `max`"),
        (&rule("l", "[]", r#"{"rate":{"limit":1,"per":60000000,"burst":1,"bust":2}}"#), "unknown field `bust`"),
        (&rule("l", "[]", r#"{"concurrency":{"most":1}},"x":2"#), "unknown field `x`"),
        (&rule("l", "[]", r#"{"limit":{"most":1}}"#), "unknown variant `limit`"),
        (r#"{"kind":"a","args":{},"rules":{}}"#, "expected a sequence"),
        (r#"{"kind":"a","args":{},"unique_key":{"name":"a"}}"#, "missing field `key`"),
        (r#"{"kind":"a","args":{},"unique_key":{"name":"","key":"[7]"}}"#, "unique_key: "),
        (r#"{"kind":"a","args":{},"unique_key":{"name":"a","key":"7"}}"#, "unique_key: "),
        (r#"{"kind":"a","args":{},"unique_key":{"name":"a","key":"[7.0]"}}"#, "unique_key: "),
        (
            r#"{"kind":"a","args":{},"unique_key":{"name":"a","key":"[7]","until":"2226-05-01T12:00:00Z"}}"#,
            "unique_key: ",
        ),
        (r#"{"kind":"a","args":{},"unique_key":{"name":"a","key":"[7]","x":1}}"#, "unknown field `x`"),
        (r#"{"kind":"a","args":{},"start_by":"2226-05-01T12:00:00Z"}"#, "expire"),
        (&deep, "recursion limit"),
        (&large, "the limit is"),
    ] {
        let problem = read(line.as_bytes(), Others::Refuse, at()).unwrap_err();
        assert!(problem.contains(part) && !problem.contains("line 1"), "{part}: {problem}");
    }
    assert!(read(b"{\"kind\":\"\xff\",\"args\":1}", Others::Refuse, at()).is_err());
    assert_eq!(read(br#"{"kind":"a","args":{},"state":"completed"}"#, Others::Skip, at()), Ok(None));
    assert!(read(br#"{"kind":"a","args":{},"state":"completed"}"#, Others::Enqueue, at()).unwrap().is_some());
}
