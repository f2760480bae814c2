//! The rules of one robots.txt.
