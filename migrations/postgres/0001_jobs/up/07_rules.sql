-- The rules and keys of a job that SQL enqueues.

-- A rule as the column `rules` has it. Null without `most`, `sequence` and `rate`.
create function jobs.rule(
    kind text, args json, most integer, by text[], limit_name text, sequence text default null, rate integer default null,
    per interval default null, burst integer default null, on_full text default null
) returns json
language plpgsql immutable
as $$
declare
    per_us bigint;
begin
    if rule.rate is null and (rule.per is not null or rule.burst is not null) then
        raise exception 'jobs.enqueue: job % has `per` or `burst`, and no `rate`', rule.kind using errcode = '22023';
    end if;
    if rule.rate is not null then
        if most is not null or rule.sequence is not null then
            raise exception 'jobs.enqueue: job % has several of `concurrency`, `sequence` and `rate`; pass one of them, and the others in `limits`', rule.kind using errcode = '22023';
        end if;
        if rule.rate not between 1 and 1000000 then
            raise exception 'jobs.enqueue: rate of job % must be from 1 to 1000000', rule.kind using errcode = '22023';
        end if;
        -- Not a comparison of intervals, for which a year has 360 days.
        if (extract(epoch from rule.per) between 0.001 and 31622400) is not true then
            raise exception 'jobs.enqueue: job % with `rate` needs `per`, from a millisecond to 366 days', rule.kind using errcode = '22023';
        end if;
        per_us := (extract(epoch from rule.per) * 1000000)::bigint;
        if per_us < rule.rate::bigint * 100 then
            raise exception 'jobs.enqueue: rate of job % allows more than 10000 starts in a second', rule.kind using errcode = '22023';
        end if;
        burst := coalesce(rule.burst, least(greatest(rule.rate::bigint * 100000 / per_us, 1), 10000));
        if burst not between 1 and 10000 then
            raise exception 'jobs.enqueue: burst of job % must be from 1 to 10000', rule.kind using errcode = '22023';
        end if;
        if per_us * burst / rule.rate > 3155760000000000 then
            raise exception 'jobs.enqueue: the tokens of burst of job % must come within a hundred years', rule.kind using errcode = '22023';
        end if;
    end if;
    if rule.on_full not in ('wait', 'discard', 'cancel_oldest') then
        raise exception 'jobs.enqueue: `on_full` of job % must be wait, discard or cancel_oldest', rule.kind using errcode = '22023';
    end if;
    if rule.on_full = 'cancel_oldest' and rule.rate is not null then
        raise exception 'jobs.enqueue: `on_full` of job % with `rate` must be wait or discard: cancelling a job frees no token', rule.kind using errcode = '22023';
    end if;
    if rule.on_full is not null and most is null and rule.rate is null then
        raise exception 'jobs.enqueue: job % has `on_full`, and neither `concurrency` nor `rate`', rule.kind using errcode = '22023';
    end if;
    if rule.sequence is not null then
        if rule.sequence not in ('halt', 'skip') then
            raise exception 'jobs.enqueue: sequence of job % must be halt or skip: what happens when the job is discarded', rule.kind using errcode = '22023';
        end if;
        if most is not null then
            raise exception 'jobs.enqueue: job % has `sequence` and `concurrency`; pass one of them, and the other in `limits`', rule.kind using errcode = '22023';
        end if;
    end if;
    if most is null and rule.sequence is null and rule.rate is null then
        if by is not null or rule.limit_name is not null then
            raise exception 'jobs.enqueue: job % has `by` or `limit_name`, and neither `concurrency` nor `sequence` nor `rate`', rule.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if rule.limit_name is null and rule.kind ~ E'^\\.v[0-9]+$' then
        raise exception 'jobs.enqueue: job % needs a `limit_name`, because its kind is a version without a name', rule.kind using errcode = '22023';
    end if;
    if most not between 1 and 10000 then
        raise exception 'jobs.enqueue: concurrency of job % must be from 1 to 10000', rule.kind using errcode = '22023';
    end if;
    if rule.limit_name = '' or octet_length(rule.limit_name) > 200 then
        raise exception 'jobs.enqueue: limit_name of job % must have 1 to 200 bytes', rule.kind using errcode = '22023';
    end if;
    return json_build_object(
        'name', coalesce(rule.limit_name, regexp_replace(rule.kind, E'\\.v[0-9]+$', '')),
        'key', jobs.key(rule.kind, rule.args, coalesce(by, '{}')),
        'rule', json_strip_nulls(case
            when rule.sequence is not null then json_build_object('sequence', json_build_object('on_discard', rule.sequence))
            when rule.rate is not null then json_build_object('rate', json_build_object(
                'limit', rule.rate, 'per', per_us, 'burst', burst, 'on_full', nullif(rule.on_full, 'wait')
            ))
            else json_build_object('concurrency', json_build_object('most', most, 'on_full', nullif(rule.on_full, 'wait'))) end)
    );
end
$$;

-- All rules of a job: the first one, if it is not null, and those of a list. Null if there are none. See jobs.enqueue.
create function jobs.rules(kind text, args json, first json, limits json) returns json
language plpgsql stable
as $$
declare
    known constant text[] := '{concurrency,by,limit_name,sequence,rate,per,burst,on_full}';
    each json;
    written record;
    part json;
    word text;
    names text[] := '{}';
    parts json[] := case when first is null then '{}' else array[first] end;
    has_sequence boolean := false;
begin
    if json_typeof(limits) <> 'array' then
        raise exception 'jobs.enqueue: `limits` of job % must be a JSON list of objects', rules.kind using errcode = '22023';
    end if;
    for each in select * from json_array_elements(limits) loop
        if json_typeof(each) <> 'object' or json_typeof(each -> 'by') not in ('array', 'null') then
            raise exception 'jobs.enqueue: each of the `limits` of job % must be a JSON object, and its `by` a list of arguments', rules.kind
                using errcode = '22023';
        end if;
        word := (select k from json_object_keys(each) k where k <> all(known) limit 1);
        if word is not null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has `%`; there are `%`', rules.kind, word, array_to_string(known, '`, `')
                using errcode = '22023';
        end if;
        begin
            select (each ->> 'concurrency')::integer as concurrency,
                   case json_typeof(each -> 'by') when 'array' then array(select json_array_elements_text(each -> 'by')) end as key_of,
                   each ->> 'limit_name' as limit_name, each ->> 'sequence' as sequence,
                   (each ->> 'rate')::integer as rate, (each ->> 'per')::interval as per, (each ->> 'burst')::integer as burst,
                   each ->> 'on_full' as on_full
            into written;
        exception when data_exception then
            raise exception 'jobs.enqueue: one of the `limits` of job % has an impossible value: %', rules.kind, sqlerrm using errcode = '22023';
        end;
        part := jobs.rule(
            rules.kind, rules.args, written.concurrency, written.key_of, written.limit_name, written.sequence, written.rate, written.per,
            written.burst, written.on_full
        );
        if part is null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has neither `concurrency` nor `sequence` nor `rate`', rules.kind
                using errcode = '22023';
        end if;
        parts := parts || part;
    end loop;
    if cardinality(parts) > 4 then
        raise exception 'jobs.enqueue: job % has % rules, and at most 4 are possible', rules.kind, cardinality(parts) using errcode = '22023';
    end if;
    if cardinality(parts) > 1 and exists (
        select from unnest(parts) as p where coalesce(p #> '{rule,concurrency,on_full}', p #> '{rule,rate,on_full}') is not null
    ) then
        raise exception 'jobs.enqueue: `on_full` of job % is for one limit or rate; a job with several of them waits', rules.kind using errcode = '22023';
    end if;
    foreach part in array parts loop
        if part ->> 'name' = any(names) then
            raise exception 'jobs.enqueue: two rules of job % have the name %; give each one a `limit_name` of its own', rules.kind, part ->> 'name'
                using errcode = '22023';
        end if;
        names := names || (part ->> 'name');
        if part #> '{rule,sequence}' is not null then
            if has_sequence then
                raise exception 'jobs.enqueue: job % is in one sequence at most', rules.kind using errcode = '22023';
            end if;
            has_sequence := true;
        end if;
    end loop;
    return case when cardinality(parts) > 0 then array_to_json(array(
        select p.part from unnest(parts) with ordinality as p (part, place) order by p.part #> '{rule,sequence}' is null, p.place
    )) end;
end
$$;

-- The same rules for a job whose tenant are the arguments that `fair_by` names.
create function jobs.with_tenant(kind text, args json, rules json, fair_by text[]) returns json
language plpgsql immutable
as $$
begin
    if cardinality(fair_by) = 0 or rules is null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which names at least one argument, and needs `concurrency`', with_tenant.kind using errcode = '22023';
    end if;
    if json_array_length(rules) > 1 or rules #> '{0,rule,concurrency}' is null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs with `concurrency` and no other rule', with_tenant.kind using errcode = '22023';
    end if;
    if rules #> '{0,rule,concurrency,on_full}' is not null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs that wait for their limit, and `on_full`, with which it does not wait', with_tenant.kind
            using errcode = '22023';
    end if;
    -- A tenant is made like a key.
    return json_build_array(json_build_object(
        'name', rules #> '{0,name}', 'key', rules #> '{0,key}', 'rule', rules #> '{0,rule}', 'tenant', jobs.key(with_tenant.kind, with_tenant.args, fair_by)
    ));
end
$$;

-- The flags of a job with these rules.
create function jobs.flags(rules json) returns integer
language sql immutable
as $$
    select case when rules is null then 0 else 1
        | case when json_array_length(rules) > 1 then 128 when rules #> '{0,rule,rate}' is not null then 8 else 0 end
        | case when rules #> '{0,rule,sequence}' is null then 0 else 4 end
        | case when coalesce(rules #>> '{0,rule,concurrency,on_full}', rules #>> '{0,rule,rate,on_full}') is null then 0 else 64 end
        | case when rules #>> '{0,tenant}' is null then 0 else 256 end end
$$;

-- The canonical text of JSON, of which keys are made: equal values have the same text. The names of an object are sorted by their bytes, and the last
-- of two fields with the same name counts. Numbers are exact: they are written out, without zeros that change nothing. So 1.0 is 1. The module
-- `canonical` in `jobs-core/src` makes the same text, and `jobs-core/src/canonical/cases.json` is tested against both.
create function jobs.canonical(kind text, value json) returns text
language plpgsql immutable
as $$
declare
    written text;
    exponent text;
begin
    case json_typeof(value)
        when 'object' then
            return (
                select '{' || coalesce(string_agg(to_json(field.name)::text || ':' || field.text, ',' order by field.name collate "C"), '') || '}'
                from (
                    select distinct on (each.name collate "C") each.name, each.text
                    from (
                        select f.key as name, jobs.canonical(canonical.kind, f.value) as text, f.place
                        from json_each(canonical.value) with ordinality as f (key, value, place) offset 0
                    ) each
                    order by each.name collate "C", each.place desc
                ) field
            );
        when 'array' then
            return (
                select '[' || coalesce(string_agg(jobs.canonical(canonical.kind, item.value), ',' order by item.place), '') || ']'
                from json_array_elements(canonical.value) with ordinality as item (value, place)
            );
        when 'string' then
            return to_json(value #>> '{}')::text;
        when 'number' then
            written := btrim(value::text, E' \t\n\r');
            if length(written) <= 18 and written ~ '^(0|-?[1-9][0-9]*)$' then
                return written;
            end if;
            exponent := substring(written from '[eE][+-]?0*([0-9]+)$');
            if length(translate(split_part(lower(written), 'e', 1), '-.', '')) > 1000 or length(exponent) > 4 or exponent::integer > 1000 then
                raise exception 'jobs.enqueue: the key of job % has a number with more than 1000 digits or an exponent beyond 1000; pass it as a text, or choose other arguments',
                    canonical.kind using errcode = '22023';
            end if;
            return trim_scale(written::numeric)::text;
        else
            return btrim(value::text, E' \t\n\r');
    end case;
end
$$;

-- The key of a job: the list of the arguments that `by` names, in their canonical text. A long one is replaced by its SHA-256. If `by` is null, the
-- key is the SHA-256 of all arguments. The functions `key_of` in `jobs-core/src/rules.rs` and `Unique::of` make the same keys.
create function jobs.key(kind text, args json, by text[]) returns text
language plpgsql immutable
as $$
declare
    nul constant text := E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000';
    readable json := key.args;
    -- The same with another character in the place of each NUL. Null if there is none.
    other json;
    named text;
    part json;
    parts text[] := '{}';
    made text;
begin
    -- JSON that is stored may have escapes that no function reads. The arguments that make no key may have a NUL.
    if position(E'\\u' in key.args::text) > 0 then
        if key.args::text ~ nul then
            readable := regexp_replace(key.args::text, nul, E'\\1\\\\u0001', 'g');
            other := regexp_replace(key.args::text, nul, E'\\1\\\\u0002', 'g');
        end if;
        begin
            perform readable -> '';
        exception when invalid_text_representation or untranslatable_character then
            raise exception 'jobs.enqueue: the arguments of job % have an escape that is no character, such as half of a surrogate pair, so they have no key', key.kind
                using errcode = '22023';
        end;
    end if;
    if by is not null then
        foreach named in array by loop
            part := readable -> named;
            if part is null then
                raise exception 'jobs.enqueue: `by` names the argument %, which job % does not have', named, key.kind using errcode = '22023';
            end if;
            if other is not null and part::text is distinct from (other -> named)::text then
                raise exception E'jobs.enqueue: the key of job % has a text with a NUL character (\\u0000), which databases do not store', key.kind
                    using errcode = '22023';
            end if;
            parts := array_append(parts, jobs.canonical(key.kind, part));
        end loop;
        made := '[' || array_to_string(parts, ',') || ']';
        if octet_length(convert_to(made, 'UTF8')) <= 200 then
            return made;
        end if;
    elsif other is not null then
        raise exception E'jobs.enqueue: the key of job % has a text with a NUL character (\\u0000), which databases do not store', key.kind using errcode = '22023';
    else
        made := jobs.canonical(key.kind, readable);
    end if;
    return 'sha256:' || encode(sha256(convert_to(made, 'UTF8')), 'hex');
end
$$;
