//! Compares compression methods for stored page content. Each page is compressed separately, as in content storage.
//!
//! ```text
//! compression-bench [--rounds N] [--pages N] [--only METHOD] DIRECTORY [OTHER…]
//! ```
//!
//! Prints a line for each method: its name, the CPU time in µs to compress and to decompress a page (the minimum of all
//! rounds, because disturbances only add time), and the compressed size as a fraction of the page's size. A dictionary
//! trained on the OTHER directories stands for a general one. With `--only`, the method compresses all pages once in
//! `compress_all`, so that callgrind can count its instructions.

mod methods;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, io};

use methods::Method;
use rustix::time::{ClockId, clock_gettime};

/// The crawler truncates pages to this size.
const MAX_PAGE_BYTES: usize = 500_000;

/// Enough for a dictionary of 16 KB, which needs about a hundred times as much training data.
const TRAINING_PAGES: usize = 150;

struct Options {
    rounds: u32,
    pages: usize,
    only: Option<String>,
    directories: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match read_options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compression-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read_options() -> io::Result<Options> {
    let mut options = Options { rounds: 5, pages: 1000, only: None, directories: Vec::new() };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().ok_or_else(|| io::Error::other(format!("{argument} needs a value")));
        let number =
            |text: String| text.parse().map_err(|_| io::Error::other(format!("not a number: {text}")));
        match argument.as_str() {
            "--rounds" => options.rounds = number(value()?)?,
            "--pages" => options.pages = number(value()?)? as usize,
            "--only" => options.only = Some(value()?),
            _ => options.directories.push(argument.into()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> io::Result<()> {
    let Some((directory, others)) = options.directories.split_first() else {
        return Err(io::Error::other("missing DIRECTORY"));
    };
    let pages = load(directory, options.pages)?;
    // Training takes long under callgrind.
    let train = options.only.as_ref().is_none_or(|only| only.ends_with("dictionary"));
    let own = if train { load(directory, TRAINING_PAGES)? } else { Vec::new() };
    let mut other = Vec::new();
    for directory in others.iter().filter(|_| train) {
        other.extend(load(directory, TRAINING_PAGES / others.len())?);
    }
    let mut methods = methods::all(&own, &other)?;
    if let Some(only) = &options.only {
        let method = methods.iter_mut().find(|method| method.name == *only);
        let method = method.ok_or_else(|| io::Error::other(format!("unknown method {only}")))?;
        println!("{}", compress_all(method, &pages).len());
        return Ok(());
    }
    let mut best = vec![(Duration::MAX, Duration::MAX, 0); methods.len()];
    for _ in 0..options.rounds {
        // Interleaved, so that other load on the machine affects all methods equally.
        for (method, best) in methods.iter_mut().zip(&mut best) {
            let (stored, compressing) = timed(|| compress_all(method, &pages));
            let (restored, decompressing) = timed(|| decompress_all(method, &stored));
            assert!(restored.iter().eq(&pages), "{} corrupts a page", method.name);
            let bytes = stored.iter().map(|page| page.len()).sum::<usize>();
            *best = (best.0.min(compressing), best.1.min(decompressing), bytes);
        }
    }
    let bytes = pages.iter().map(Vec::len).sum::<usize>();
    println!("{} pages, {} bytes each", pages.len(), bytes / pages.len().max(1));
    for (method, (compressing, decompressing, stored)) in methods.iter().zip(best) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / pages.len() as f64;
        println!(
            "{}\t{:.1}\t{:.1}\t{:.3}",
            method.name,
            each(compressing),
            each(decompressing),
            stored as f64 / bytes as f64
        );
    }
    Ok(())
}

/// Compresses all pages. callgrind counts the instructions of this function.
#[inline(never)]
fn compress_all(method: &mut Method, pages: &[Vec<u8>]) -> Vec<Box<[u8]>> {
    pages.iter().map(|page| (method.compress)(black_box(page))).collect()
}

#[inline(never)]
fn decompress_all(method: &mut Method, stored: &[Box<[u8]>]) -> Vec<Vec<u8>> {
    stored.iter().map(|page| (method.decompress)(black_box(page))).collect()
}

/// The result of `work` and its CPU time.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let cpu_time = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let start = cpu_time();
    let result = work();
    (result, cpu_time() - start)
}

/// Up to `number` pages of the directory, sampled evenly.
fn load(directory: &Path, number: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    find_pages(directory, &mut paths)?;
    paths.sort();
    if paths.is_empty() {
        return Err(io::Error::other(format!("no pages in {}", directory.display())));
    }
    let step = paths.len().div_ceil(number.max(1));
    let page = |path: &PathBuf| {
        let mut page = fs::read(path)?;
        page.truncate(MAX_PAGE_BYTES);
        Ok(page)
    };
    paths.iter().step_by(step).map(page).collect()
}

fn find_pages(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find_pages(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "html") && path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
