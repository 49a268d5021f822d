//! Primary keys as arguments.

use std::fmt;
use std::marker::PhantomData;

use diesel_jobs_core::__private::refuse_infinite;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::Value;

use super::Row;
use crate::enqueue_each::ColumnArgument;

/// The primary key of a row of `T`, as a job stores it. It is the type of the field that `#[job]` generates for a
/// parameter `Ref<T>`. Create it from a reference to the row, or from the value of the key: `(&user).into()` or
/// `7.into()`.
///
/// It contains the JSON of the key instead of a `T::PrimaryKey`, so that it needs no bound on `T`. If `T` is not a
/// [`Row`], the compiler therefore reports a single error, at the place where the row is loaded; with a bound, it would
/// report one for each trait of the job.
pub struct Key<T> {
    /// The JSON of the key, or the reason why the key cannot be stored.
    json: Result<Value, String>,
    row: PhantomData<fn() -> T>,
}

impl<T: Row> Key<T> {
    /// The key with this value.
    pub fn new(key: T::PrimaryKey) -> Self {
        let json = refuse_infinite(&key).and_then(|()| serde_json::to_value(key));
        Self { json: json.map_err(|error| error.to_string()), row: PhantomData }
    }

    /// The value of the key.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored JSON cannot be decoded into the type of the key.
    pub fn value(&self) -> Result<T::PrimaryKey, serde_json::Error> {
        match &self.json {
            Ok(json) => T::PrimaryKey::deserialize(json),
            Err(problem) => Err(serde_json::Error::custom(problem)),
        }
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self { json: self.json.clone(), row: PhantomData }
    }
}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

/// Prints the JSON of the key.
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.json {
            Ok(json) => fmt::Display::fmt(json, f),
            Err(problem) => problem.fmt(f),
        }
    }
}

impl<T> Serialize for Key<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.json {
            Ok(json) => json.serialize(serializer),
            Err(problem) => Err(ser::Error::custom(problem)),
        }
    }
}

impl<'de, T> Deserialize<'de> for Key<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|json| Self { json: Ok(json), row: PhantomData })
    }
}

impl<T: Row> From<&T> for Key<T> {
    fn from(row: &T) -> Self {
        Self::new(row.primary_key())
    }
}

/// Lets `enqueue_each` provide the key from a column.
impl<T: Row<PrimaryKey: ColumnArgument>> ColumnArgument for Key<T> {
    type SqlType = <T::PrimaryKey as ColumnArgument>::SqlType;
    const IS_JSON: bool = T::PrimaryKey::IS_JSON;

    fn in_sqlite(column: &str) -> String {
        T::PrimaryKey::in_sqlite(column)
    }
}

// These are concrete types, because a generic `From<T::PrimaryKey>` would overlap with `From<Key<T>>`.
macro_rules! from_values {
    ($($value:ty),*) => {$(
        impl<T: Row<PrimaryKey = $value>> From<$value> for Key<T> {
            fn from(key: $value) -> Self {
                Self::new(key)
            }
        }

        impl<T: Row<PrimaryKey = $value>> PartialEq<$value> for Key<T> {
            fn eq(&self, key: &$value) -> bool {
                self.value().is_ok_and(|value| value == *key)
            }
        }
    )*};
}

from_values!(i16, i32, i64, String, uuid::Uuid);

impl<T: Row<PrimaryKey = String>> From<&str> for Key<T> {
    fn from(key: &str) -> Self {
        Self::new(key.to_owned())
    }
}

impl<T: Row<PrimaryKey = String>> PartialEq<&str> for Key<T> {
    fn eq(&self, key: &&str) -> bool {
        self.value().is_ok_and(|value| value == *key)
    }
}

macro_rules! composite_keys {
    ($(($($part:ident),+)),*) => {$(
        impl<T: Row<PrimaryKey = ($($part,)+)>, $($part),+> From<($($part,)+)> for Key<T> {
            fn from(key: ($($part,)+)) -> Self {
                Self::new(key)
            }
        }

        impl<T: Row<PrimaryKey = ($($part,)+)>, $($part),+> PartialEq<($($part,)+)> for Key<T>
        where
            ($($part,)+): PartialEq,
        {
            fn eq(&self, key: &($($part,)+)) -> bool {
                self.value().is_ok_and(|value| value == *key)
            }
        }

        impl<$($part: OwnedKey),+> OwnedKey for ($($part,)+)
        where
            ($($part::Owned,)+): StoredKey,
        {
            type Owned = ($($part::Owned,)+);

            fn into_owned_key(self) -> Self::Owned {
                #[allow(non_snake_case)]
                let ($($part,)+) = self;
                ($($part.into_owned_key(),)+)
            }
        }
    )*};
}

composite_keys!((A, B), (A, B, C), (A, B, C, D));

/// A value that can be stored as a primary key. Every type with these traits is one.
pub trait StoredKey: Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug + Send + Sync + 'static {}

impl<K: Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug + Send + Sync + 'static> StoredKey for K {}

/// The primary key that Diesel's `Identifiable` returns: a reference, or a tuple of references.
#[diagnostic::on_unimplemented(
    message = "a job cannot store the primary key `{Self}`",
    note = "a key needs `serde::Serialize`, `serde::Deserialize`, `Clone`, `PartialEq` and `Debug`; a composite key has up to four columns"
)]
pub trait OwnedKey {
    /// The key as a value.
    type Owned: StoredKey;

    /// Clones the key.
    fn into_owned_key(self) -> Self::Owned;
}

impl<K: StoredKey> OwnedKey for &K {
    type Owned = K;

    fn into_owned_key(self) -> K {
        self.clone()
    }
}
