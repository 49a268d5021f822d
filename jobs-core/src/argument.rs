//! Encodes and decodes the arguments of a `#[job]` function as JSON fields. The macro's output calls these functions.
//!
//! The generated struct could use serde's derives instead. But then an argument that cannot be stored would violate
//! four bounds of serde. Now it violates one bound, [`Argument`], and the compiler reports it once, at the argument's
//! type.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize};

use crate::context::JobContext;
use crate::handler::{Handle, Registered};
use crate::outcome::Handled;

/// A value that can be an argument of a job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "cannot be stored as JSON",
    note = "arguments are stored as JSON: every type in them needs `serde::Serialize` and `serde::Deserialize`, and owns its data",
    note = "a value that belongs to the worker, such as a client or a pool, is taken as `State<T>`"
)]
pub trait Argument: Sized {
    /// Writes the argument as a field.
    fn write<S: SerializeStruct>(&self, name: &'static str, fields: &mut S) -> Result<(), S::Error>;

    /// Reads the value that follows the key `name`.
    fn read<'de, A: MapAccess<'de>>(
        slot: &mut Option<Self>,
        name: &'static str,
        fields: &mut A,
    ) -> Result<(), A::Error>;

    /// Returns the value that was read. A missing field is `None` for an `Option`, and an error for all other types.
    fn take<E: de::Error>(slot: Option<Self>, name: &'static str) -> Result<Self, E>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Argument for T {
    fn write<S: SerializeStruct>(&self, name: &'static str, fields: &mut S) -> Result<(), S::Error> {
        fields.serialize_field(name, self)
    }

    fn read<'de, A: MapAccess<'de>>(
        slot: &mut Option<Self>,
        name: &'static str,
        fields: &mut A,
    ) -> Result<(), A::Error> {
        match slot {
            Some(_) => Err(de::Error::duplicate_field(name)),
            None => {
                *slot = Some(fields.next_value()?);
                Ok(())
            }
        }
    }

    fn take<E: de::Error>(slot: Option<Self>, name: &'static str) -> Result<Self, E> {
        match slot {
            Some(value) => Ok(value),
            None => T::deserialize(Absent { name, error: std::marker::PhantomData }),
        }
    }
}

/// A missing field. An `Option` decodes it as `None`. All other types report the missing field.
struct Absent<E> {
    name: &'static str,
    error: std::marker::PhantomData<E>,
}

impl<'de, E: de::Error> Deserializer<'de> for Absent<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, E> {
        Err(de::Error::missing_field(self.name))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The arguments of a job without arguments: `{}`, as SQL and schedules write it, or `null`. Fields that an older
/// version of the job has written are ignored, as for jobs with arguments.
#[derive(Clone, Copy, Debug)]
pub struct NoArguments;

impl<'de> Deserialize<'de> for NoArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `deserialize_any`, so that it says that it reads no fields: see `undecodable`.
        deserializer.deserialize_option(Self)
    }
}

impl<'de> Visitor<'de> for NoArguments {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no arguments: `{}` or `null`")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_none<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("NoArguments", &[], self)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self, A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(fields)).map(|_| self)
    }
}

/// Decodes a job whose handler is an `impl Handle`, and runs it.
pub fn handle<J: Handle + Registered>(ctx: JobContext) -> BoxFuture<'static, Handled> {
    Box::pin(async move { J::decode(&ctx)?.handle(ctx).await })
}
