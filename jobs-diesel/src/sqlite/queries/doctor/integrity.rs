//! Whether the file is damaged. It reads the whole file.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "integrity",
    sql: r"select 'error' as severity, 'the file is damaged: ' || quick_check as what, 'restore a backup, or: sqlite3 FILE .recover' as repair
from pragma_quick_check where quick_check <> 'ok' limit 10",
};
