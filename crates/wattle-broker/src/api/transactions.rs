//! Requests of this family.
