//! The end of roles that tests have created.

/// Statements that drop these roles and their privileges in this database. The server keeps the privileges on
/// parameters, which `migrate roles` grants, in one row for all databases. Two sessions that change it at once would
/// fail, so this waits for the lock that the grant takes, too.
pub fn drop_roles(roles: &[&str]) -> String {
    let roles = roles.join(", ");
    format!(
        "do $$
begin
    if to_regclass('pg_catalog.pg_parameter_acl') is not null then
        lock table pg_catalog.pg_parameter_acl in share row exclusive mode;
    end if;
end
$$;
drop owned by {roles}; drop role {roles}"
    )
}
