//! Arguments: how they become fields, JSON, and arguments again.

use std::collections::BTreeMap;

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{JobContext, State, job};
use serde_json::{Value, from_value, json, to_value};

use crate::support::run;

#[derive(serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
struct Address {
    street: String,
}

#[allow(unused_qualifications, reason = "a `String` is one under its full path too")]
#[allow(clippy::too_many_arguments, reason = "every form in one place")]
#[job]
fn every_form(
    number: i64,
    text: String,
    borrowed: &str,
    slice: &[Address],
    mut counted: u8,
    optional: Option<Address>,
    map: BTreeMap<String, (i32, bool)>,
    r#type: std::string::String,
    State(_clock): State<u32>,
    _unused: char,
    _ctx: &JobContext,
) {
    counted += 1;
    let seen = json!([number, text, borrowed, slice, counted, optional, map, r#type]);
    assert_eq!(seen, json!([1, "two", "three", [{"street": "four"}], 6, null, {"seven": [7, true]}, "eight"]));
}

fn value() -> EveryForm {
    let street = Address { street: "four".into() };
    let map = BTreeMap::from([("seven".to_owned(), (7, true))]);
    EveryForm::new(1, "two", String::from("three"), vec![street], 5, None, map, "eight", 'x')
}

fn stored() -> Value {
    json!({
        "number": 1, "text": "two", "borrowed": "three", "slice": [{"street": "four"}], "counted": 5,
        "optional": null, "map": {"seven": [7, true]}, "type": "eight", "_unused": "x",
    })
}

#[test]
fn new_and_the_fields_hold_the_arguments_and_nothing_else() {
    let EveryForm { number, text, borrowed, slice, counted, optional, map, r#type, _unused } = value();
    assert_eq!((number, text.as_str(), borrowed.as_str(), counted, r#type.as_str()), (1, "two", "three", 5, "eight"));
    assert_eq!((slice[0].street.as_str(), optional, map["seven"], _unused), ("four", None, (7, true), 'x'));
}

#[test]
fn arguments_are_stored_under_their_names() {
    assert_eq!(to_value(value()).unwrap(), stored());
}

#[test]
fn what_is_stored_reads_back_the_same() {
    let read: EveryForm = from_value(stored()).unwrap();
    assert_eq!(to_value(read).unwrap(), stored());
}

#[job]
fn weigh(_weights: Vec<Option<f64>>, _note: Option<String>) {}

#[test]
fn a_number_that_json_would_lose_is_refused() {
    let weigh = |weight| Weigh::new(vec![None, Some(weight)], None).into_new_job().map(|job| job.args);
    assert_eq!(weigh(1.5).unwrap(), r#"{"_weights":[null,1.5],"_note":null}"#);
    let refused = weigh(f64::NAN).unwrap_err().to_string();
    assert_eq!(
        refused,
        "job `weigh`: its arguments cannot be written as JSON: JSON cannot express NaN (in `_weights`)"
    );
}

#[tokio::test]
async fn the_function_gets_what_was_stored() {
    let mut states = diesel_jobs_core::States::default();
    states.insert(3u32);
    run::<EveryForm>(&stored(), states).await.unwrap();
}

#[test]
fn an_absent_option_is_none_and_unknown_fields_are_left_by() {
    let mut args = stored();
    args.as_object_mut().unwrap().remove("optional");
    args["of_a_newer_version"] = json!([1, {"deep": null}]);
    let read: EveryForm = from_value(args).unwrap();
    assert_eq!(read.optional, None);
}

fn refusal(args: Value) -> String {
    from_value::<EveryForm>(args).map_or_else(|error| error.to_string(), |_| "nothing".to_owned())
}

#[test]
fn other_absent_arguments_are_named() {
    for name in ["number", "text", "borrowed", "slice", "map", "type"] {
        let mut args = stored();
        args.as_object_mut().unwrap().remove(name);
        assert_eq!(refusal(args), format!("missing field `{name}`"));
    }
}

#[test]
fn repeated_and_ill_typed_arguments_are_refused() {
    let mut args = stored();
    args["number"] = json!("one");
    assert_eq!(refusal(args), "invalid type: string \"one\", expected i64");
    let twice = r#"{"number": 1, "number": 2}"#;
    let error = serde_json::from_str::<EveryForm>(twice).err().unwrap();
    assert!(error.to_string().starts_with("duplicate field `number`"), "{error}");
    assert_eq!(refusal(json!([1])), "invalid type: sequence, expected the arguments of job `every_form`");
}

#[job]
fn no_arguments(_ctx: JobContext) {}

#[test]
fn a_job_without_arguments_is_its_name_and_reads_from_nothing() {
    assert_eq!(to_value(NoArguments).unwrap(), json!({}));
    assert_eq!(to_value(NoArguments::new()).unwrap(), json!({}));
    for stored in [json!({}), json!(null), json!({"left_over": [1]})] {
        let NoArguments = from_value(stored).unwrap();
    }
    let refused = from_value::<NoArguments>(json!(3)).err().unwrap();
    assert_eq!(refused.to_string(), "invalid type: integer `3`, expected no arguments: `{}` or `null`");
}

#[job]
fn r#match(r#in: i64) {
    assert_eq!(r#in, 3);
}

#[tokio::test]
async fn raw_identifiers_lose_their_prefix_in_all_that_is_stored() {
    assert_eq!(<Match as diesel_jobs::Job>::KIND, "match");
    assert_eq!(to_value(Match { r#in: 3 }).unwrap(), json!({"in": 3}));
    run::<Match>(&json!({"in": 3}), diesel_jobs_core::States::default()).await.unwrap();
}
