//! Refuses floats that JSON cannot express. `serde_json` writes NaN and the infinities as `null`: the value would be
//! lost, and a job with such an argument could not be read again.
//!
//! `serde_json` lets nobody tell the `null` of a float from that of `None`. So a text with `null` makes this serializer
//! look at the value once more; all other texts have lost nothing, and cost a search.

use std::fmt;

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// The JSON text of a value, in which no float is lost.
pub(crate) fn json_text(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    refuse_lost(value, &text)?;
    Ok(text)
}

/// Refuses a value of which this text has lost a float.
pub(crate) fn refuse_lost(value: &(impl Serialize + ?Sized), text: &str) -> serde_json::Result<()> {
    if text.contains("null") { refuse_infinite(value) } else { Ok(()) }
}

/// Refuses a value that contains a float which is not finite. The names of map entries are not told: they are data.
pub fn refuse_infinite(value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(Floats).map_err(Error::custom)
}

/// Passes over everything but floats.
#[derive(Clone, Copy)]
struct Floats;

#[derive(Debug)]
struct Refused {
    /// The names of the fields in which it is, separated by dots.
    place: String,
    what: String,
}

impl Refused {
    fn within(mut self, field: &str) -> Self {
        self.place = if self.place.is_empty() { field.to_owned() } else { format!("{field}.{}", self.place) };
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() { f.write_str(&self.what) } else { write!(f, "{} (in `{}`)", self.what, self.place) }
    }
}

impl std::error::Error for Refused {}

impl Error for Refused {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self { place: String::new(), what: what.to_string() }
    }
}

type Seen = Result<(), Refused>;

macro_rules! pass_over {
    ($($method:ident($($given:ty),*)),* $(,)?) => {$(
        fn $method(self, $(_: $given),*) -> Seen {
            Ok(())
        }
    )*};
}

macro_rules! look_inside {
    ($($method:ident($($given:ty),*)),* $(,)?) => {$(
        fn $method(self, $(_: $given),*) -> Result<Self, Refused> {
            Ok(self)
        }
    )*};
}

impl Serializer for Floats {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn serialize_f32(self, number: f32) -> Seen {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Seen {
        if number.is_finite() { Ok(()) } else { Err(Refused::custom(format_args!("JSON cannot express {number}"))) }
    }

    pass_over! {
        serialize_bool(bool), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128),
        serialize_none(), serialize_unit(), serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    }

    look_inside! {
        serialize_seq(Option<usize>), serialize_tuple(usize), serialize_tuple_struct(&'static str, usize),
        serialize_tuple_variant(&'static str, u32, &'static str, usize), serialize_map(Option<usize>),
        serialize_struct(&'static str, usize),
        serialize_struct_variant(&'static str, u32, &'static str, usize),
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Seen {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Seen {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Seen {
        value.serialize(self)
    }

    // The default would format it.
    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Seen {
        Ok(())
    }
}

macro_rules! values {
    ($($compound:ident: $($method:ident)+),* $(,)?) => {$(
        impl $compound for Floats {
            type Ok = ();
            type Error = Refused;

            $(fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Seen {
                value.serialize(*self)
            })+

            fn end(self) -> Seen {
                Ok(())
            }
        }
    )*};
}

values! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
    SerializeMap: serialize_key serialize_value,
}

macro_rules! fields {
    ($($compound:ident),*) => {$(
        impl $compound for Floats {
            type Ok = ();
            type Error = Refused;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Seen {
                value.serialize(*self).map_err(|refused| refused.within(name))
            }

            fn end(self) -> Seen {
                Ok(())
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Every shape in which serde can hide a float.
    #[derive(serde::Serialize)]
    enum Shape {
        Newtype(f64),
        Tuple(u8, f32),
        Struct { deep: Option<f64> },
    }

    #[derive(serde::Serialize)]
    struct Newtype(f64);

    #[derive(serde::Serialize)]
    struct Pair((), Newtype);

    #[derive(serde::Serialize)]
    struct Args<T> {
        none: Option<f64>,
        price: T,
    }

    fn refusal(price: impl Serialize) -> Option<String> {
        json_text(&Args { none: None, price }).err().map(|error| error.to_string())
    }

    #[test]
    fn a_float_that_json_would_lose_is_refused_with_its_place() {
        const NAN: f64 = f64::NAN;
        let place = "JSON cannot express NaN (in `price`)";
        let all = [
            refusal(NAN),
            refusal(f32::NAN),
            refusal(Some(NAN)),
            refusal([1.0, NAN]),
            refusal(vec![Some(NAN)]),
            refusal((1, "x", NAN)),
            refusal(BTreeMap::from([("secret", NAN)])),
            refusal(Shape::Newtype(NAN)),
            refusal(Shape::Tuple(1, f32::NAN)),
            refusal(Newtype(NAN)),
            refusal(Pair((), Newtype(NAN))),
            refusal(Box::new(Some(vec![Newtype(NAN)]))),
        ];
        for (number, refused) in all.into_iter().enumerate() {
            assert_eq!(refused.as_deref(), Some(place), "shape {number}");
        }
        let inner = refusal(Shape::Struct { deep: Some(f64::INFINITY) });
        assert_eq!(inner.as_deref(), Some("JSON cannot express inf (in `price.deep`)"));
        assert_eq!(json_text(&f64::NEG_INFINITY).unwrap_err().to_string(), "JSON cannot express -inf");
        assert!(json_text(&BTreeMap::from([(FloatKey(u64::MAX), 1)])).is_err());
    }

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct FloatKey(u64);

    impl Serialize for FloatKey {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_f64(f64::from_bits(self.0))
        }
    }

    #[test]
    fn all_that_json_can_express_is_written_as_ever() {
        let large: serde_json::Value = serde_json::json!({"a": [null, 1, -2, 1.5, "null", true, {"b": null}]});
        assert_eq!(json_text(&large).unwrap(), serde_json::to_string(&large).unwrap());
        let numbers = (f64::MAX, f64::MIN_POSITIVE, -0.0, None::<f64>);
        assert_eq!(json_text(&numbers).unwrap(), serde_json::to_string(&numbers).unwrap());
        let raw = serde_json::value::RawValue::from_string("[null,  1e999]".to_owned()).unwrap();
        assert_eq!(json_text(&raw).unwrap(), "[null,  1e999]");
        let wide = (u128::MAX, i128::MIN, 'x', (), None::<u8>, Shape::Struct { deep: None });
        assert_eq!(json_text(&wide).unwrap(), serde_json::to_string(&wide).unwrap());
        assert_eq!(json_text(&Shape::Newtype(1.0)).unwrap(), r#"{"Newtype":1.0}"#);
    }
}
