//! Sets the soname of the shared library, so that programs find it wherever it is installed.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcrawl.so");
    println!("cargo::rerun-if-changed=build.rs");
}
