//! Mutants of jobs that do not wait if their limit is full, of tenants, and of batches.

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cancels-the-newest",
        tests: &["on-full"],
        fault: "of the jobs of a full key the newest are cancelled",
        reworded: &[],
        server: edited!(
            "jobs.full_jobs(integer)",
            "row_number() over (order by each.id desc)",
            "row_number() over (order by each.id)"
        ),
    },
    Mutant {
        name: "first-come-first-served",
        tests: &["fair"],
        fault: "jobs with a tenant are admitted in the order of the other jobs",
        reworded: &[],
        server: edited!(
            "jobs.free_in_fair(text[],text[],json,text[],text[],integer)",
            ") as is_fair",
            ") and false as is_fair"
        ),
    },
    Mutant {
        name: "begins-at-the-first-tenant",
        tests: &["fair"],
        fault: "a pass of admission does not store whose turn it was",
        reworded: &[],
        server: edited!(
            "jobs.free_of_tenants(text,text,smallint,timestamptz,bigint,bigint,text[],text[],bigint)",
            "elsif last <> turn.after then",
            "elsif false then"
        ),
    },
    Mutant {
        name: "commits-without-some",
        tests: &["batches"],
        fault: "the transaction of a batch is committed although some of its jobs could not be ended",
        reworded: &[(
            "select coalesce(array_agg(id) filter (where (select count(*) from woken) >= 0",
            "select coalesce($1::bigint[], array_agg(id) filter (where (select count(*) from woken) >= 0",
        )],
        server: "",
    },
];
