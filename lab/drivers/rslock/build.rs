// Which version of the library is built in, as Cargo has resolved it.
fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock");
    let after = lock
        .split("name = \"rslock\"\nversion = \"")
        .nth(1)
        .expect("rslock in Cargo.lock");
    println!(
        "cargo:rustc-env=RSLOCK_VERSION={}",
        after.split('"').next().expect("its version")
    );
}
