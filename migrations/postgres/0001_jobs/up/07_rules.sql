-- The limits and keys of a job that SQL enqueues.

-- The limit of a job, as in the column `flow`. Null without `most`.
create function jobs.flow(
    kind text, args json, most integer, by text[], limit_name text, sequence text default null, rate integer default null,
    per interval default null, burst integer default null, on_full text default null
) returns json
language plpgsql immutable
as $$
declare
    per_us bigint;
begin
    if flow.rate is null and (flow.per is not null or flow.burst is not null) then
        raise exception 'jobs.enqueue: job % has `per` or `burst`, and no `rate`', flow.kind using errcode = '22023';
    end if;
    if flow.rate is not null then
        if most is not null or flow.sequence is not null then
            raise exception 'jobs.enqueue: job % has several of `concurrency`, `sequence` and `rate`; pass one of them, and the others in `limits`', flow.kind using errcode = '22023';
        end if;
        if flow.rate not between 1 and 1000000 then
            raise exception 'jobs.enqueue: rate of job % must be from 1 to 1000000', flow.kind using errcode = '22023';
        end if;
        -- Not a comparison of intervals, for which a year has 360 days.
        if (extract(epoch from flow.per) between 0.001 and 31622400) is not true then
            raise exception 'jobs.enqueue: job % with `rate` needs `per`, from a millisecond to 366 days', flow.kind using errcode = '22023';
        end if;
        per_us := (extract(epoch from flow.per) * 1000000)::bigint;
        if per_us < flow.rate::bigint * 100 then
            raise exception 'jobs.enqueue: rate of job % allows more than 10000 starts in a second', flow.kind using errcode = '22023';
        end if;
        burst := coalesce(flow.burst, least(greatest(flow.rate::bigint * 100000 / per_us, 1), 10000));
        if burst not between 1 and 10000 then
            raise exception 'jobs.enqueue: burst of job % must be from 1 to 10000', flow.kind using errcode = '22023';
        end if;
        if per_us * burst / flow.rate > 3155760000000000 then
            raise exception 'jobs.enqueue: the tokens of burst of job % must come within a hundred years', flow.kind using errcode = '22023';
        end if;
    end if;
    if flow.on_full not in ('wait', 'discard', 'cancel_oldest') then
        raise exception 'jobs.enqueue: `on_full` of job % must be wait, discard or cancel_oldest', flow.kind using errcode = '22023';
    end if;
    if flow.on_full = 'cancel_oldest' and flow.rate is not null then
        raise exception 'jobs.enqueue: `on_full` of job % with `rate` must be wait or discard: cancelling a job frees no token', flow.kind using errcode = '22023';
    end if;
    if flow.on_full is not null and most is null and flow.rate is null then
        raise exception 'jobs.enqueue: job % has `on_full`, and neither `concurrency` nor `rate`', flow.kind using errcode = '22023';
    end if;
    if flow.sequence is not null then
        if flow.sequence not in ('halt', 'skip') then
            raise exception 'jobs.enqueue: sequence of job % must be halt or skip: what happens when the job is discarded', flow.kind using errcode = '22023';
        end if;
        if most is not null then
            raise exception 'jobs.enqueue: job % has `sequence` and `concurrency`; pass one of them, and the other in `limits`', flow.kind using errcode = '22023';
        end if;
        most := 1;
    end if;
    if most is null and flow.rate is null then
        if by is not null or flow.limit_name is not null then
            raise exception 'jobs.enqueue: job % has `by` or `limit_name`, and neither `concurrency` nor `sequence` nor `rate`', flow.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if flow.limit_name is null and flow.kind ~ '^\.v[0-9]+$' then
        raise exception 'jobs.enqueue: job % needs a `limit_name`, because its kind is a version without a name', flow.kind using errcode = '22023';
    end if;
    if most not between 1 and 10000 then
        raise exception 'jobs.enqueue: concurrency of job % must be from 1 to 10000', flow.kind using errcode = '22023';
    end if;
    if flow.limit_name = '' or octet_length(flow.limit_name) > 200 then
        raise exception 'jobs.enqueue: limit_name of job % must have 1 to 200 bytes', flow.kind using errcode = '22023';
    end if;
    return json_strip_nulls(json_build_object(
        'limit', coalesce(flow.limit_name, regexp_replace(flow.kind, '\.v[0-9]+$', '')),
        'key', jobs.key(flow.kind, flow.args, coalesce(by, '{}')), 'most', coalesce(most, flow.rate),
        'sequence', flow.sequence, 'rate', case when flow.rate is not null then json_build_object('per', per_us, 'burst', burst) end,
        'on_full', nullif(flow.on_full, 'wait')
    ));
end
$$;

-- The same for several limits: the one that is given, if it is not null, and those of a list. See jobs.enqueue.
create function jobs.flow_of_all(kind text, args json, first json, limits json) returns json
language plpgsql stable
as $$
declare
    known constant text[] := '{concurrency,by,limit_name,sequence,rate,per,burst}';
    each json;
    written record;
    part json;
    word text;
    names text[] := '{}';
    parts json[] := case when first is null then '{}' else array[first] end;
    sequence json;
begin
    if json_typeof(limits) <> 'array' then
        raise exception 'jobs.enqueue: `limits` of job % must be a JSON list of objects', flow_of_all.kind using errcode = '22023';
    end if;
    for each in select * from json_array_elements(limits) loop
        if json_typeof(each) <> 'object' or json_typeof(each -> 'by') not in ('array', 'null') then
            raise exception 'jobs.enqueue: each of the `limits` of job % must be a JSON object, and its `by` a list of arguments', flow_of_all.kind
                using errcode = '22023';
        end if;
        word := (select k from json_object_keys(each) k where k <> all(known) limit 1);
        if word is not null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has `%`; there are `%`', flow_of_all.kind, word, array_to_string(known, '`, `')
                using errcode = '22023';
        end if;
        begin
            select (each ->> 'concurrency')::integer as concurrency,
                   case json_typeof(each -> 'by') when 'array' then array(select json_array_elements_text(each -> 'by')) end as key_of,
                   each ->> 'limit_name' as limit_name, each ->> 'sequence' as sequence,
                   (each ->> 'rate')::integer as rate, (each ->> 'per')::interval as per, (each ->> 'burst')::integer as burst
            into written;
        exception when data_exception then
            raise exception 'jobs.enqueue: one of the `limits` of job % has an impossible value: %', flow_of_all.kind, sqlerrm using errcode = '22023';
        end;
        part := jobs.flow(
            flow_of_all.kind, flow_of_all.args, written.concurrency, written.key_of, written.limit_name, written.sequence, written.rate, written.per,
            written.burst
        );
        if part is null then
            raise exception 'jobs.enqueue: one of the `limits` of job % has neither `concurrency` nor `sequence` nor `rate`', flow_of_all.kind
                using errcode = '22023';
        end if;
        parts := parts || part;
    end loop;
    if cardinality(parts) <= 1 then
        return parts[1];
    end if;
    if cardinality(parts) > 4 then
        raise exception 'jobs.enqueue: job % has % limits, and at most 4 are possible', flow_of_all.kind, cardinality(parts) using errcode = '22023';
    end if;
    if first ->> 'on_full' is not null then
        raise exception 'jobs.enqueue: `on_full` of job % is for one limit or rate; a job with several of them waits', flow_of_all.kind using errcode = '22023';
    end if;
    foreach part in array parts loop
        if part ->> 'limit' = any(names) then
            raise exception 'jobs.enqueue: two limits of job % have the name %; give each one a `limit_name` of its own', flow_of_all.kind, part ->> 'limit'
                using errcode = '22023';
        end if;
        names := names || (part ->> 'limit');
        if part -> 'sequence' is not null then
            if sequence is not null then
                raise exception 'jobs.enqueue: job % is in one sequence at most', flow_of_all.kind using errcode = '22023';
            end if;
            sequence := part;
        end if;
    end loop;
    limits := array_to_json(array(select p from unnest(parts) as p where p -> 'sequence' is null));
    if sequence is null then
        return json_build_object('limit', '', 'key', jobs.lane(limits), 'most', 1, 'limits', limits);
    end if;
    return json_build_object('limit', sequence ->> 'limit', 'key', sequence ->> 'key', 'most', 1, 'sequence', sequence ->> 'sequence',
                             'lane', jobs.lane(limits), 'limits', limits);
end
$$;

-- The same limit for a job whose tenant are the arguments that `fair_by` names.
create function jobs.fair_flow(kind text, args json, flow json, fair_by text[]) returns json
language plpgsql immutable
as $$
begin
    if cardinality(fair_by) = 0 or flow is null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which names at least one argument, and needs `concurrency`', fair_flow.kind using errcode = '22023';
    end if;
    if flow -> 'limits' is not null or flow -> 'rate' is not null or flow -> 'sequence' is not null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs with `concurrency` and no other limit', fair_flow.kind using errcode = '22023';
    end if;
    if flow -> 'on_full' is not null then
        raise exception 'jobs.enqueue: job % has `fair_by`, which is for jobs that wait for their limit, and `on_full`, with which it does not wait', fair_flow.kind
            using errcode = '22023';
    end if;
    -- A tenant is made like a key.
    return flow::jsonb || jsonb_build_object('fair', jobs.key(fair_flow.kind, fair_flow.args, fair_by));
end
$$;

-- The flags of a job with this `flow`.
create function jobs.flow_flags(flow json) returns integer
language sql immutable
as $$
    select case when flow ->> 'fair' is null then 0 else 256 end | case when flow is null then 0 when flow -> 'limits' is not null then case when flow ->> 'sequence' is null then 129 else 133 end
                when flow -> 'rate' is not null then 9 when flow ->> 'sequence' is not null then 5 else 1 end
           | case when flow ->> 'on_full' is null then 0 else 64 end
$$;

-- One of the limits of a job with several.
create function jobs.limit_of(flow json, name text) returns json
language sql immutable
as $$
    select l from json_array_elements(flow -> 'limits') l where l ->> 'limit' = name limit 1
$$;

-- The lane of jobs with these limits: their names and keys as a JSON list, or its hash. A 1 follows the key of a rate. The function `lane` in
-- `jobs-core/src/limit/several.rs` makes the same.
create function jobs.lane(limits json) returns text
language sql immutable
as $$
    select case when octet_length(t.text) <= 200 then t.text else 'sha256:' || encode(sha256(convert_to(t.text, 'UTF8')), 'hex') end
    from (
        select '[' || string_agg(
            to_json(l ->> 'limit')::text || ',' || to_json(l ->> 'key')::text || case when l -> 'rate' is null then '' else ',1' end,
            ',' order by l ->> 'limit' collate "C"
        ) || ']' as text
        from json_array_elements(limits) l
    ) t
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
-- key is the SHA-256 of all arguments. The functions `key_of` in `jobs-core/src/limit.rs` and `Unique::of` make the same keys.
create function jobs.key(kind text, args json, by text[]) returns text
language plpgsql immutable
as $$
declare
    nul constant text := '(?<!\\)((?:\\\\)*)\\u0000';
    readable json := key.args;
    -- The same with another character in the place of each NUL. Null if there is none.
    other json;
    named text;
    part json;
    parts text[] := '{}';
    made text;
begin
    -- JSON that is stored may have escapes that no function reads. The arguments that make no key may have a NUL.
    if position('\u' in key.args::text) > 0 then
        if key.args::text ~ nul then
            readable := regexp_replace(key.args::text, nul, '\1\\u0001', 'g');
            other := regexp_replace(key.args::text, nul, '\1\\u0002', 'g');
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
                raise exception 'jobs.enqueue: the key of job % has a text with a NUL character (\u0000), which databases do not store', key.kind
                    using errcode = '22023';
            end if;
            parts := array_append(parts, jobs.canonical(key.kind, part));
        end loop;
        made := '[' || array_to_string(parts, ',') || ']';
        if octet_length(convert_to(made, 'UTF8')) <= 200 then
            return made;
        end if;
    elsif other is not null then
        raise exception 'jobs.enqueue: the key of job % has a text with a NUL character (\u0000), which databases do not store', key.kind using errcode = '22023';
    else
        made := jobs.canonical(key.kind, readable);
    end if;
    return 'sha256:' || encode(sha256(convert_to(made, 'UTF8')), 'hex');
end
$$;

-- The rule of a unique job that SQL enqueues. Null without `by`.
create function jobs.unique_rule(kind text, args json, by text[], within interval, until text, on_conflict text) returns json
language plpgsql immutable
as $$
begin
    if by is null then
        if within is not null or until is not null or on_conflict is not null then
            raise exception 'jobs.enqueue: job % has `unique_within`, `unique_until` or `on_conflict`, and no `unique_by`', unique_rule.kind using errcode = '22023';
        end if;
        return null;
    end if;
    if coalesce(until, 'finished') not in ('started', 'finished') or coalesce(on_conflict, 'keep') not in ('keep', 'error', 'replace', 'run_again') then
        raise exception 'jobs.enqueue: `unique_until` of job % is started or finished, and `on_conflict` is keep, replace, run_again or error', unique_rule.kind
            using errcode = '22023';
    end if;
    if until = 'started' and on_conflict = 'run_again' then
        raise exception 'jobs.enqueue: job % has `on_conflict` run_again, which waits for the end of the running job, and `unique_until` started', unique_rule.kind
            using errcode = '22023';
    end if;
    if extract(epoch from within) <= 0 or extract(epoch from within) > extract(epoch from interval '100 years') then
        raise exception 'jobs.enqueue: `unique_within` of job % must be longer than 0 and at most a hundred years', unique_rule.kind using errcode = '22023';
    end if;
    return json_build_object(
        'name', regexp_replace(unique_rule.kind, '\.v[0-9]+$', ''), 'key', jobs.key(unique_rule.kind, unique_rule.args, nullif(by, '{}')),
        'started', coalesce(until = 'started', false),
        'within', extract(epoch from within), 'error', coalesce(on_conflict = 'error', false),
        'again', coalesce(on_conflict = 'run_again', false), 'args', coalesce(on_conflict in ('replace', 'run_again'), false),
        'run_at', coalesce(on_conflict = 'replace', false), 'priority', coalesce(on_conflict = 'replace', false), 'quiet', null, 'max', null
    );
end
$$;
