//! Settings: the settings of real databases and roles, one after the other, under load. Examples are isolation levels,
//! timeouts, read-only defaults, and unusual search paths, time zones and formats.
//!
//! Nothing is lost, and nothing is done twice. Only the handlers' own failures consume attempts. None of the worker's
//! own statements is refused.

use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use torture::process::lines_with;

/// The number of jobs under each setting. The settings are the faults.
const SHORT: Size = Size { jobs: 150, faults: 0 };
const LONG: Size = Size { jobs: 4_000, faults: 0 };
const WORKERS: usize = 2;
const REST: Duration = Duration::from_secs(60);
/// The role with the settings. The suite's own sessions use another role, so that their reads are not affected.
const ROLE: &str = "limited";

/// The settings of a role.
struct Setting {
    name: &'static str,
    /// In the form of `alter role .. set`.
    set: &'static [&'static str],
    /// Whether there are transactional handlers. The worker cannot change the settings for the handlers' own
    /// statements.
    transactional: bool,
    /// Connection options with which the application overrides the settings.
    application: &'static str,
}

const fn setting(name: &'static str, set: &'static [&'static str]) -> Setting {
    Setting { name, set, transactional: true, application: "" }
}

const SETTINGS: &[Setting] = &[
    setting("serializable", &["default_transaction_isolation = serializable"]),
    setting("repeatable read", &["default_transaction_isolation = 'repeatable read'"]),
    Setting {
        application: "-cstatement_timeout%3D0",
        transactional: false,
        ..setting("statement_timeout 1 ms", &["statement_timeout = 1"])
    },
    setting("statement_timeout 2 s", &["statement_timeout = 2000"]),
    setting("lock_timeout 1 ms", &["lock_timeout = 1"]),
    setting("idle in transaction", &["idle_in_transaction_session_timeout = 1500"]),
    setting("idle sessions", &["idle_session_timeout = 50"]),
    Setting {
        application: "-cdefault_transaction_read_only%3Doff",
        ..setting("read-only", &["default_transaction_read_only = on"])
    },
    setting(
        "odd paths and formats",
        &[
            "search_path = nowhere",
            "datestyle = 'SQL, DMY'",
            "intervalstyle = sql_standard",
            "timezone = 'Asia/Kathmandu'",
            "bytea_output = escape",
            "extra_float_digits = -15",
        ],
    ),
    setting(
        "all together",
        &[
            "default_transaction_isolation = serializable",
            "lock_timeout = 5",
            "idle_session_timeout = 200",
            "search_path = nowhere",
            "datestyle = 'German'",
            "timezone = 'Pacific/Chatham'",
        ],
    ),
];

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    conn.batch_execute(&format!("drop role if exists {ROLE}; create role {ROLE} superuser login")).await?;
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let (mut ledger, mut drained, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for (round, setting) in (0..).zip(SETTINGS) {
        conn.batch_execute(&format!("alter role {ROLE} reset all")).await?;
        for set in setting.set {
            conn.batch_execute(&format!("alter role {ROLE} set {set}")).await?;
        }
        fault(&conn, setting.name, None).await?;
        let mut fleet = Fleet::start(fixture, as_role(&fixture.worker_url()), History::Quick, &args, WORKERS).await?;
        let mix = Mix { transactional: if setting.transactional { 50 } else { 0 }, bulk: 30, ..Mix::default() };
        let workload = Workload::new(fixture.seed + round, mix, size.jobs).from(1 + 1_000_000 * i64::try_from(round)?);
        let options = setting.application;
        let url = as_role(&fixture.url()) + if options.is_empty() { "" } else { "&options=" } + options;
        ledger.extend(Load::start(url, workload, Duration::from_millis(2)).ended().await?.ledger());
        if fixture.at_rest(REST).await? {
            dead.extend(fleet.dead()?);
            fleet.stop().await?;
        } else {
            drained.push(setting.name);
        }
    }
    conn.batch_execute(&format!("drop role {ROLE}")).await?;
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = SETTINGS.len();
    run.expect(drained.is_empty(), || format!("not drained after {REST:?} under {drained:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    // With a limit of 50 ms for idle sessions, a server on a busy machine closes new connections before their first
    // statement. No statement was refused then.
    let closed = lines_with(
        fixture.logs(),
        "and is tried again: the database is unavailable: the server closed every connection",
    )?;
    let refused = lines_with(fixture.logs(), "and is tried again")? - closed;
    run.expect(refused == 0, || format!("{refused} lines tell of statements of the worker's own that were refused"));
    Ok(run)
}

fn as_role(url: &str) -> String {
    url.replacen("tester@", &format!("{ROLE}@"), 1)
}
