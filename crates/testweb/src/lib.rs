//! A web on loopback, made from a seed.
