//! Runs the binary on a terminal: a pseudo-terminal, and an emulation of what its screen shows.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use unicode_width::UnicodeWidthChar as _;

/// How long a test waits for something to be shown.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The binary on a terminal, which is its controlling terminal: Ctrl-C sends a signal.
pub struct Terminal {
    child: Child,
    /// The other end of the terminal.
    master: File,
    screen: Arc<Mutex<Screen>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs a command with all its streams on a terminal of this size, in columns and rows.
    pub fn run(command: &Command, columns: usize, rows: usize) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let master = File::from(master);
        set_size(&master, columns, rows);
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        // A session of its own, whose terminal is standard input. The tests themselves may ignore SIGHUP (under nohup)
        // or SIGINT (in the background of a script).
        let mut session = Command::new("env");
        session.args(["--default-signal=HUP,INT,QUIT", "setsid", "--ctty"]);
        session.arg(command.get_program()).args(command.get_args());
        session.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CLICOLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            session.current_dir(directory);
        }
        session.stdin(open()).stdout(open()).stderr(open());
        let child = session.spawn().expect("env runs");
        // The command keeps the terminal open; without it, reading ends when the child exits.
        drop(session);
        let screen = Arc::new(Mutex::new(Screen::new(columns, rows)));
        let (shown, mut from) = (Arc::clone(&screen), master.try_clone().unwrap());
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                shown.lock().unwrap().write(&buffer[..read]);
            }
        });
        Terminal { child, master, screen, reader }
    }

    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap()
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_true: impl Fn(&Screen) -> bool) {
        let started = Instant::now();
        while !is_true(&self.screen()) {
            let has_ended = self.child.try_wait().unwrap().is_some() && self.reader.is_finished();
            let is_late = started.elapsed() > TIMEOUT;
            assert!(!is_late && (!has_ended || is_true(&self.screen())), "{what}:\n{}", self.screen().text());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types keys.
    pub fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Types keys repeatedly until the process exits. Two that it gets at once may count as one.
    #[track_caller]
    #[allow(dead_code, reason = "the distributed tests, which include this file, do not use it")]
    pub fn press_until_exit(&mut self, keys: &[u8]) {
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < TIMEOUT, "it does not exit:\n{}", self.screen().text());
            self.press(keys);
            thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Resizes the terminal. Some terminals wrap their lines again then, others do not.
    pub fn resize(&mut self, columns: usize, rows: usize, wraps_again: bool) {
        let mut screen = self.screen();
        screen.resize(columns, rows, wraps_again);
        set_size(&self.master, columns, rows);
    }

    /// Waits for the exit, and returns the exit status and the last screen.
    pub fn wait(mut self) -> (Option<i32>, Screen) {
        let status = self.child.wait().unwrap().code();
        drop(self.master);
        self.reader.join().unwrap();
        let screen = Arc::into_inner(self.screen).expect("the reader has ended").into_inner().unwrap();
        (status, screen)
    }
}

fn set_size(terminal: &File, columns: usize, rows: usize) {
    let (ws_col, ws_row) = (columns as u16, rows as u16);
    tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// What a terminal shows. It understands what the binary uses, and panics at anything else.
pub struct Screen {
    columns: usize,
    rows: usize,
    /// All lines, those that have scrolled off the screen first.
    lines: Vec<Line>,
    /// The cursor, as an index of `lines` and a column.
    cursor: (usize, usize),
    /// The first line on the screen.
    top: usize,
    wraps: bool,
    /// Bytes of a character or sequence that is not complete yet.
    partial: Vec<u8>,
    /// Sequences that set colours and styles.
    pub styles: Vec<String>,
    /// All bytes.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Default)]
struct Line {
    text: Vec<char>,
    /// Whether the text continues in the next line.
    is_wrapped: bool,
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Screen {
        Screen {
            columns,
            rows,
            lines: vec![Line::default()],
            cursor: (0, 0),
            top: 0,
            wraps: true,
            partial: Vec::new(),
            styles: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The lines, those above the screen too, without the empty ones at the end.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| String::from_iter(&line.text).trim_end().to_owned());
        let mut lines: Vec<String> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// How many lines contain this.
    pub fn count(&self, words: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(words)).count()
    }

    pub fn has(&self, words: &str) -> bool {
        self.count(words) > 0
    }

    /// The lines below the cursor: those that are repainted.
    pub fn live_lines(&self) -> Vec<String> {
        self.lines().split_off(self.cursor.0.min(self.lines().len()))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.partial.extend(bytes);
        let bytes = std::mem::take(&mut self.partial);
        let complete = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) => {
                assert!(error.error_len().is_none(), "not UTF-8: {bytes:?}");
                error.valid_up_to()
            }
        };
        let mut text = std::str::from_utf8(&bytes[..complete]).unwrap();
        while let Some(first) = text.chars().next() {
            if first == '\u{1b}' {
                let end = text.char_indices().skip(2).find(|(_, c)| matches!(c, '@'..='~'));
                let Some((end, _)) = end else { break };
                self.control(&text[1..=end]);
                text = &text[end + 1..];
            } else {
                self.put(first);
                text = &text[first.len_utf8()..];
            }
        }
        let unread = bytes[..complete].len() - text.len();
        self.partial = bytes[unread..].to_vec();
    }

    fn control(&mut self, sequence: &str) {
        let (row, column) = self.cursor;
        match sequence {
            "[K" => self.lines[row].text.truncate(column),
            "[J" => {
                self.lines.truncate(row + 1);
                self.lines[row].text.truncate(column);
                self.lines[row].is_wrapped = false;
            }
            "[?7l" => self.wraps = false,
            "[?7h" => self.wraps = true,
            style if style.ends_with('m') => self.styles.push(style.to_owned()),
            up if up.ends_with('A') => {
                let rows: usize = up[1..up.len() - 1].parse().unwrap();
                self.cursor = (row.saturating_sub(rows).max(self.top), column);
            }
            other => panic!("an unknown sequence: {other:?}"),
        }
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' => self.cursor.1 = 0,
            '\n' => self.next_line(),
            '\u{7}' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => panic!("a control character: {character:?}"),
            _ if character.width() == Some(0) => {}
            _ => {
                let width = character.width().unwrap_or(1);
                if self.cursor.1 + width > self.columns {
                    if self.wraps {
                        self.lines[self.cursor.0].is_wrapped = true;
                        self.next_line();
                        self.cursor.1 = 0;
                    } else {
                        self.cursor.1 = self.columns - width;
                    }
                }
                let (row, column) = self.cursor;
                let text = &mut self.lines[row].text;
                text.resize(text.len().max(column + 1), ' ');
                text[column] = character;
                self.cursor.1 += width;
            }
        }
    }

    fn next_line(&mut self) {
        self.cursor.0 += 1;
        if self.cursor.0 == self.lines.len() {
            self.lines.push(Line::default());
        }
        self.scroll();
    }

    /// Keeps the cursor on the screen.
    fn scroll(&mut self) {
        self.top = self.top.max((self.cursor.0 + 1).saturating_sub(self.rows));
    }

    fn resize(&mut self, columns: usize, rows: usize, wraps_again: bool) {
        (self.columns, self.rows) = (columns, rows);
        if !wraps_again {
            self.lines.iter_mut().for_each(|line| line.text.truncate(columns));
            self.cursor.1 = self.cursor.1.min(columns);
            return self.scroll();
        }
        let (mut lines, mut cursor) = (Vec::new(), (0, 0));
        let mut joined: Vec<char> = Vec::new();
        for (row, line) in self.lines.iter().enumerate() {
            if row == self.cursor.0 {
                let offset = joined.len() + self.cursor.1;
                cursor = (lines.len() + offset / columns, offset % columns);
            }
            joined.extend(&line.text);
            if line.is_wrapped {
                continue;
            }
            let mut parts: Vec<&[char]> = joined.chunks(columns).collect();
            if parts.is_empty() {
                parts.push(&[]);
            }
            let last = parts.len() - 1;
            lines.extend(
                parts
                    .iter()
                    .enumerate()
                    .map(|(index, part)| Line { text: part.to_vec(), is_wrapped: index < last }),
            );
            joined.clear();
        }
        lines.resize(lines.len().max(cursor.0 + 1), Line::default());
        (self.lines, self.cursor) = (lines, cursor);
        self.scroll();
    }
}
