//! Numbers of milliseconds that are text in JSON: `#[serde(with = "api::instant")]` and `#[serde(with = "api::span")]`.

/// A number, perhaps one, or several.
pub trait Numbers: Sized {
    /// The same of something else.
    type Of<W>;

    /// Each as something else.
    fn wrap<W>(&self, wrap: fn(u64) -> W) -> Self::Of<W>;

    /// The numbers again.
    fn unwrap<W>(of: Self::Of<W>, number: fn(W) -> u64) -> Self;
}

impl Numbers for u64 {
    type Of<W> = W;

    fn wrap<W>(&self, wrap: fn(u64) -> W) -> W {
        wrap(*self)
    }

    fn unwrap<W>(of: W, number: fn(W) -> u64) -> Self {
        number(of)
    }
}

impl Numbers for Option<u64> {
    type Of<W> = Option<W>;

    fn wrap<W>(&self, wrap: fn(u64) -> W) -> Option<W> {
        self.map(wrap)
    }

    fn unwrap<W>(of: Option<W>, number: fn(W) -> u64) -> Self {
        of.map(number)
    }
}

impl Numbers for Vec<u64> {
    type Of<W> = Vec<W>;

    fn wrap<W>(&self, wrap: fn(u64) -> W) -> Vec<W> {
        self.iter().copied().map(wrap).collect()
    }

    fn unwrap<W>(of: Vec<W>, number: fn(W) -> u64) -> Self {
        of.into_iter().map(number).collect()
    }
}

/// Writes and reads numbers as a type of this module.
macro_rules! written_as {
    ($type:ident) => {
        /// For `#[serde(with)]`.
        ///
        /// # Errors
        /// Those of the serializer.
        pub fn serialize<T, S>(numbers: &T, serializer: S) -> Result<S::Ok, S::Error>
        where
            T: $crate::api::numbers::Numbers<Of<$type>: serde::Serialize>,
            S: serde::Serializer,
        {
            serde::Serialize::serialize(&numbers.wrap($type), serializer)
        }

        /// For `#[serde(with)]`.
        ///
        /// # Errors
        /// Where it is of another form.
        pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
        where
            T: $crate::api::numbers::Numbers<Of<$type>: serde::Deserialize<'de>>,
            D: serde::Deserializer<'de>,
        {
            serde::Deserialize::deserialize(deserializer).map(|of| T::unwrap(of, |one: $type| one.0))
        }
    };
}
pub(super) use written_as;
