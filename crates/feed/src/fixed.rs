//! Prices and quantities as whole numbers of 1e-8.

/// A price or a quantity: a whole number of 1e-8. Exact for every venue here, unlike a float; the
/// largest is 92,233,720,368.54775807.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed(pub i64);

impl Fixed {
    /// What 1 is.
    pub const ONE: Self = Self(100_000_000);
    /// Nothing: as a quantity, the level is gone.
    pub const ZERO: Self = Self(0);
}
