//! Pages of the file that are not in use.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "free_pages",
    sql: r"select 'warning' as severity, f.freelist_count || ' of the ' || c.page_count || ' pages of the file are not in use' as what, 'vacuum' as repair
from pragma_freelist_count f, pragma_page_count c where f.freelist_count > 2000 and 2 * f.freelist_count > c.page_count",
};
