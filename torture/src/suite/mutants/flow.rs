//! Mutants of limits, rates, sequences and unique keys. Most of them are changes of the schema's functions, because the
//! database decides there.

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "counts-before-the-lock",
        tests: &["limits"],
        fault: "a pass of admission counts the permits before it has the lock",
        reworded: &[],
        server: concat!(
            edited!(
                "jobs.admit(boolean,boolean)",
                "is_busy := false; admitted := 0;",
                "perform set_config('jobs.counted', coalesce((
                    select json_object_agg(s.name, s.number) from (
                        select limit_name || limit_key as name, count(*) as number from jobs.permit group by 1
                    ) s), '{}')::text, true);
                perform pg_sleep(0.005);
                is_busy := false; admitted := 0;"
            ),
            "; ",
            edited!(
                "jobs.heads(text[],text[],json)",
                "head.most) - taken.number",
                "head.most) - coalesce((current_setting('jobs.counted')::json ->> (head.name || head.key))::bigint, 0)"
            )
        ),
    },
    Mutant {
        name: "begins-after-its-permits",
        tests: &["limits"],
        fault: "the floor of a key is above the permits that the same pass makes",
        reworded: &[],
        server: concat!(
            edited!(
                "jobs.write_floors(bigint,json[],timestamptz)",
                "coalesce(f.first_permit, earlier + 1)",
                "earlier + 2"
            ),
            "; ",
            edited!(
                "jobs.free_jobs(text[],text[],json,text[],text[],integer)",
                "jobs_per_floor constant float8 := 100",
                "jobs_per_floor constant float8 := 10"
            )
        ),
    },
    Mutant {
        name: "looks-at-the-first-limit",
        tests: &["limits"],
        fault: "a pass of admission looks only at the first of several limits",
        reworded: &[],
        server: concat!(
            edited!("jobs.full_rule(json,timestamptz)", "where jobs.free_of", "where place = 1 and jobs.free_of"),
            "; ",
            edited!(
                "jobs.free_in_lane(text,text[],text[],bigint,timestamptz,boolean,timestamptz)",
                "from jobs.beside_sequence(first) r",
                "from (select first -> 0) one (r)"
            )
        ),
    },
    Mutant {
        name: "keeps-other-permits",
        tests: &["limits"],
        fault: "a retry gives back the permit of one of several limits only",
        reworded: &[(
            "delete from jobs.permit where job_id = any(array(
        select id from moved where rules is not null and verb <> 6
          and case",
            "delete from jobs.permit where limit_name <> 'shared' and job_id = any(array(
        select id from moved where rules is not null and verb <> 6
          and case",
        )],
        server: "",
    },
    Mutant {
        name: "frees-before-the-fence",
        tests: &["limits"],
        fault: "a finish frees the permit of its job, although its lease is lost",
        reworded: &[
            (
                "delete from jobs.permit where job_id = any(array(
        select id from moved where rules is not null and verb <> 6
          and case when verb in (4, 5) then rules #> '{0,rule,sequence}' is null
            when verb = 3 then coalesce(rules #>> '{0,rule,sequence,on_discard}', '') <> 'halt' else true end
    ))",
                "delete from jobs.permit where job_id = any($1)",
            ),
            (
                "delete from jobs.permit where job_id = any(array(select id from moved)) returning",
                "delete from jobs.permit where job_id = any($1) returning",
            ),
        ],
        server: "",
    },
    Mutant {
        name: "tells-nobody",
        tests: &["limits"],
        fault: "a finish that leaves a permit free does not tell admission, or only if it sees a job that waits for it",
        reworded: &[
            (
                "end from moved cross join lateral jobs.place(rules) place
    where rules is not null and verb <> 6 and (flags & 136 <> 8 or verb in (4, 5))",
                "end from moved cross join lateral jobs.place(rules) place
    where rules is not null and verb <> 6 and (flags & 136 <> 8 or verb in (4, 5))
                   and (verb in (4, 5) or exists (
                       select from jobs.held h where h.limit_name = place.limit_name and h.limit_key = place.limit_key
                   ))",
            ),
            (
                "from chosen
    where cardinality(places) < permits or",
                "from chosen
    where false and",
            ),
        ],
        server: "",
    },
    Mutant {
        name: "passes-on-one-more",
        tests: &["limits"],
        fault: "a finish passes on one permit more of each key than it has freed",
        reworded: &[
            ("h.id limit key.permits", "h.id limit key.permits + 1"),
            ("places[1:least(permits, permits + most - (", "places[1:least(permits + 1, permits + 1 + most - ("),
        ],
        server: "",
    },
    Mutant {
        name: "spends-no-token",
        tests: &["rates"],
        fault: "a pass of admission spends no token for the last of the jobs that it takes from a key",
        reworded: &[],
        server: edited!(
            "jobs.free_in_rate(text[],text[],smallint[],timestamptz[],text[],text[],integer)",
            "p.lack + cardinality(p.places) * p.every",
            "p.lack + greatest(cardinality(p.places) - 1, 0) * p.every"
        ),
    },
    Mutant {
        name: "looks-no-more",
        tests: &["rates"],
        fault: "no pass is made when the next token of a key comes",
        reworded: &[],
        server: edited!(
            "jobs.free_in_rate(text[],text[],smallint[],timestamptz[],text[],text[],integer)",
            "p.next_lack) * microsecond end",
            "p.next_lack) * microsecond + interval '1 hour' end"
        ),
    },
    Mutant {
        name: "any-order",
        tests: &["sequences"],
        fault: "the next job of a sequence is the one with the highest priority",
        reworded: &[],
        server: edited!(
            "jobs.next_in_sequence(text,text,bigint,bigint)",
            "order by h.id limit 1",
            "order by h.priority desc, h.id limit 1"
        ),
    },
    Mutant {
        name: "gives-its-turn-away",
        tests: &["sequences"],
        fault: "a job of a sequence loses its permit while it waits for its next attempt",
        reworded: &[(
            "case when verb in (4, 5) then rules #> '{0,rule,sequence}' is null",
            "case when verb in (4, 5) then true",
        )],
        server: "",
    },
    Mutant {
        name: "forgets-halts",
        tests: &["sequences"],
        fault: "a discarded job halts no sequence",
        reworded: &[
            (
                "when verb = 3 then coalesce(rules #>> '{0,rule,sequence,on_discard}', '') <> 'halt'",
                "when verb = 3 then true",
            ),
            ("set halted_at = clock_timestamp()\n    where job_id", "set halted_at = null\n    where false and job_id"),
        ],
        server: "",
    },
    Mutant {
        name: "takes-keys-again",
        tests: &["unique"],
        fault: "a job gives its key back for the time between two attempts, and takes it again for the next one",
        reworded: &[],
        server: "create function jobs.take_again() returns trigger language plpgsql as $do$ begin
                if tg_table_name = 'ready' then
                    delete from jobs.unique_key where job_id = new.id;
                else
                    insert into jobs.unique_key (name, key, job_id, started)
                    values ('keyed', json_build_array(new.args ->> 'key')::text, new.id, false);
                end if;
                return new;
            end $do$;
            create trigger give_back after insert on jobs.ready for each row
            when (new.kind = 'keyed' and new.attempt > 0) execute function jobs.take_again();
            create trigger take_again after insert on jobs.running for each row
            when (new.kind = 'keyed' and new.attempt > 1) execute function jobs.take_again()",
    },
    Mutant {
        name: "keeps-keys",
        tests: &["unique"],
        fault: "the end of a job does not delete the row of its key",
        reworded: &[(
            "select k.ctid from jobs.unique_key k\n        where ",
            "select k.ctid from jobs.unique_key k\n        where false and ",
        )],
        server: "",
    },
    Mutant {
        name: "keys-in-any-order",
        tests: &["unique"],
        fault: "a bulk takes its keys in any order, and does not begin again after a deadlock",
        reworded: &[],
        server: concat!(
            edited!(
                "jobs.take_keys(text[],text[],boolean[],float8[],json[],json[],timestamptz[],smallint[])",
                "where w.name is not null\n                on conflict",
                "where w.name is not null order by random()\n                on conflict"
            ),
            "; ",
            edited!(
                "jobs.take_keys(text[],text[],boolean[],float8[],json[],json[],timestamptz[],smallint[])",
                "if attempt = 10 then",
                "if true then"
            )
        ),
    },
    Mutant {
        name: "runs-again-at-once",
        tests: &["unique"],
        fault: "a job that runs again starts while the one before it runs",
        reworded: &[],
        server: edited!(
            "jobs.next_in_sequence(text,text,bigint,bigint)",
            "select exists (select from jobs.permit s where s.limit_name = name and s.limit_key = key and s.number >= first_permit) as it",
            "select false as it"
        ),
    },
    Mutant {
        name: "quiet-without-end",
        tests: &["unique"],
        fault: "each enqueue makes a debounced job wait for the whole quiet time",
        reworded: &[],
        server: edited!(
            "jobs.replace_waiting(jobs.unique_key,json,json,timestamptz,smallint)",
            "least(clock_timestamp() + quiet, ready.enqueued_at + longest)",
            "clock_timestamp() + quiet"
        ),
    },
];
