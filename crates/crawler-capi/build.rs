//! Gives the shared library its name, so that programs linked by path find it wherever it is installed.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcrawl.so");
    println!("cargo::rerun-if-changed=build.rs");
}
