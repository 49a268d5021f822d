//! The journal mode. Without the write-ahead log, readers and writers block each other.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "journal_mode",
    sql: r"select 'warning' as severity, 'the journal mode is ' || journal_mode || ', so readers and writers block each other' as what, 'pragma journal_mode = wal' as repair
from pragma_journal_mode where journal_mode <> 'wal'",
};
