//! `compose.yaml` and `Dockerfile`: their commands crawl when they run as plain processes, and their containers are confined.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testredis::ReservedPort;
use testweb::{Response, Site, Web};

use super::process::{Process, poll, run, texts};

/// The long-running services, and those that run one command.
const LONG_RUNNING: [&str; 3] = ["redis", "frontier", "worker"];
const TOOLS: [&str; 5] = ["submit", "status", "stop", "collect", "purge"];

/// The services of the profile 'monitoring'.
const MONITORING: [&str; 3] = ["dashboard", "prometheus", "grafana"];

/// The API key in the environment in which Docker Compose runs.
const PAGERANK_KEY: &str = "open sesame";

/// The token of the dashboard there.
const TOKEN: &str = "a-token-of-the-dashboard";

/// How often a condition is checked that takes a process to check.
const INTERVAL: Duration = Duration::from_millis(50);

/// The contents of both files.
struct Composition {
    services: Value,
    document: Value,
    dockerfile: String,
}

impl Composition {
    fn read() -> Composition {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("compose.yaml")).unwrap();
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let dockerfile = fs::read_to_string(root.join("Dockerfile")).unwrap();
        Composition { services: document["services"].clone(), document, dockerfile }
    }

    fn service(&self, name: &str) -> &Value {
        self.services.get(name).unwrap_or_else(|| panic!("there is no service {name}"))
    }

    /// The arguments of the last instruction of this name in the Dockerfile.
    fn instruction(&self, name: &str) -> &str {
        let mut lines = self.dockerfile.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.next_back().unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// The command line of a service, as Docker assembles it.
    fn words(&self, name: &str) -> Vec<String> {
        let service = self.service(name);
        let own = strings(&service["entrypoint"]);
        let entrypoint = match (name, own.is_empty()) {
            ("redis", _) | (_, false) => own,
            (_, true) => serde_json::from_str(self.instruction("ENTRYPOINT")).unwrap(),
        };
        [entrypoint, strings(&service["command"])].concat()
    }
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The containers as plain processes, with directories for volumes and a port for the host of Redis.
struct Containers {
    composition: Composition,
    volumes: TempDir,
    port: ReservedPort,
    /// The ports of the metrics of the frontier and of a worker, which have an address of their own in a container.
    metrics: [ReservedPort; 2],
}

impl Containers {
    fn new() -> Containers {
        let volumes = TempDir::new().unwrap();
        let (composition, port) = (Composition::read(), ReservedPort::new());
        let metrics = [ReservedPort::new(), ReservedPort::new()];
        let containers = Containers { composition, volumes, port, metrics };
        LONG_RUNNING
            .iter()
            .chain(&TOOLS)
            .for_each(|name| fs::create_dir_all(containers.volume_of(name)).unwrap());
        containers
    }

    /// The directory in place of the volume at /data.
    fn volume_of(&self, service: &str) -> PathBuf {
        let volumes = strings(&self.composition.service(service)["volumes"]);
        let name = volumes.iter().find_map(|volume| volume.strip_suffix(":/data")).unwrap();
        self.volumes.path().join(name)
    }

    /// A command in the container of a service.
    fn inside(&self, service: &str, words: &[String]) -> Command {
        let program = match words[0].as_str() {
            "/usr/local/bin/crawler" => env!("CARGO_BIN_EXE_crawler"),
            other => other,
        };
        let volume = self.volume_of(service);
        let mut command = Command::new(program);
        command.args(words[1..].iter().map(|word| word.replace("/data", volume.to_str().unwrap())));
        for (name, value) in
            self.composition.service(service)["environment"].as_object().into_iter().flatten()
        {
            let value = value.as_str().unwrap().replace("${CRAWL:-crawl}", "crawl");
            let value = value.replace("${CRAWLER_PAGERANK_KEY:-}", PAGERANK_KEY);
            let value = value.replace("${CRAWLER_DASHBOARD_TOKEN:-}", TOKEN);
            let metrics = &self.metrics[usize::from(service == "worker")];
            let value = value.replace(":9464", &format!(":{}", metrics.number()));
            command.env(name, value.replace("//redis/", &format!("//127.0.0.1:{}/", self.port.number())));
        }
        command.current_dir(volume).stdin(Stdio::null());
        command
    }

    /// What the container of a service runs, with further arguments.
    fn command(&self, service: &str, more: &[&str]) -> Command {
        let mut command = self.inside(service, &self.composition.words(service));
        if service == "redis" {
            command.args(["--bind", "127.0.0.1", "--port", &self.port.number().to_string()]);
        }
        command.args(more);
        command
    }

    fn is_healthy(&self, service: &str) -> bool {
        let test = strings(&self.composition.service(service)["healthcheck"]["test"]);
        assert_eq!(test[0], "CMD", "there is no shell in the image");
        let mut words = test[1..].to_vec();
        if service == "redis" {
            words.splice(1..1, ["-p".into(), self.port.number().to_string()]);
        }
        let check = self.inside(service, &words);
        run(check).status.success()
    }

    /// Runs a tool, which must succeed.
    fn tool(&self, service: &str, more: &[&str]) -> String {
        let output = run(self.command(service, more));
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{service} {more:?}: {}\n{out}{err}", output.status);
        out
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn commands_of_the_containers_crawl_as_plain_processes() {
    let containers = Containers::new();
    assert!(!containers.is_healthy("redis") && !containers.is_healthy("worker"), "nothing runs yet");
    let redis = Process::start(containers.command("redis", &[]));
    poll("Redis", INTERVAL, || containers.is_healthy("redis"));
    let mut commands = ["frontier", "worker", "worker", "worker"].map(|it| containers.command(it, &[]));
    // They share an address here.
    for command in &mut commands[2..] {
        command.env_remove("CRAWLER_METRICS");
    }
    let roles = commands.map(Process::start);
    poll("roles without a crawl to be healthy", INTERVAL, || {
        containers.is_healthy("frontier") && containers.is_healthy("worker")
    });

    let web = Web::builder().seeded_hosts(5, 6, 8).start();
    let ranks = Web::builder().site(Site::new().fallback(|_| Response::text(r#"{"response":[]}"#))).start();
    let (seed, ranks_url) = (web.url_of("h0.test", "/"), ranks.url(""));
    let options = "--delay 5ms --similarity 0 --allow-private --resolve *=127.0.0.1 --module jsonl=pages.jsonl --pagerank-url";
    let arguments: Vec<&str> = [&*seed].into_iter().chain(options.split(' ')).chain([&*ranks_url]).collect();
    assert!(containers.tool("submit", &arguments).contains("with 1 URL\n"));
    poll("the end of the crawl", INTERVAL, || containers.tool("status", &[]).contains("finished"));
    assert!(containers.is_healthy("worker"));
    assert_eq!(ranks.log()[0].header("api-opr"), Some(PAGERANK_KEY), "the key reaches the frontier");
    containers.tool("collect", &["--of", "pages.jsonl"]);
    let lines = fs::read_to_string(containers.volume_of("worker").join("pages.jsonl")).unwrap();
    let url = |line: &str| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned();
    let pages: BTreeSet<String> = lines.lines().map(url).collect();
    let truth: BTreeSet<String> = web.truth_from(&seed, 1_000).into_keys().collect();
    assert_eq!((pages.len(), &pages), (lines.lines().count(), &truth), "each page once");

    // As `docker compose stop` does.
    let grace = containers.composition.service("worker")["stop_grace_period"].as_str().unwrap();
    let grace = Duration::from_secs(grace.strip_suffix('s').unwrap().parse().unwrap());
    let start = Instant::now();
    for role in roles {
        role.signal(Signal::TERM);
        let (status, output) = role.wait();
        assert_eq!(status, Some(143), "{output}");
    }
    assert!(start.elapsed() < grace);
    assert!(containers.tool("stop", &[]).contains("is already finished"));
    assert!(containers.tool("purge", &[]).contains("purged crawl"));
    redis.signal(Signal::TERM);
    assert_eq!(redis.wait().0, Some(0));
    assert!(
        containers.volume_of("redis").join("appendonlydir").is_dir(),
        "the data of Redis is in its volume"
    );
}

#[test]
fn every_container_is_confined_and_long_running_ones_have_health_checks() {
    let composition = Composition::read();
    let names: BTreeSet<&str> =
        composition.services.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, LONG_RUNNING.into_iter().chain(TOOLS).chain(MONITORING).collect());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in names {
        let service = composition.service(name);
        assert_eq!(service["read_only"], true, "{name}");
        // Compose copies neither into a read-only container, unless it is a file.
        assert!(service["secrets"].is_null() && service["configs"].is_null(), "{name}");
        assert_eq!(strings(&service["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(strings(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        for port in strings(&service["ports"]) {
            assert!(MONITORING.contains(&name) && port.starts_with("127.0.0.1:"), "{name} publishes {port}");
        }
        for opened in ["privileged", "cap_add", "pid", "network_mode", "expose"] {
            assert!(service[opened].is_null(), "{name} has {opened}");
        }
        for (kind, declared) in [("volumes", "volumes"), ("networks", "networks")] {
            for used in strings(&service[kind]) {
                let used = used.split(':').next().unwrap();
                if used.starts_with("./") {
                    assert!(root.join(used).exists(), "{name} mounts {used}");
                    continue;
                }
                assert!(composition.document[declared].get(used).is_some(), "{name} uses {used}");
            }
        }
        if MONITORING.contains(&name) {
            assert_eq!(strings(&service["profiles"]), ["monitoring"], "{name}");
        }
        if LONG_RUNNING.contains(&name) || MONITORING.contains(&name) {
            assert_eq!(service["restart"], "unless-stopped", "{name}");
            assert!(!strings(&service["healthcheck"]["test"]).is_empty(), "{name}");
        } else {
            assert_eq!(strings(&service["profiles"]), ["tools"], "{name}");
        }
        if !["redis", "prometheus", "grafana"].contains(&name) {
            assert_eq!(service["depends_on"]["redis"]["condition"], "service_healthy", "{name}");
        }
        let has_key = service["environment"].get("CRAWLER_PAGERANK_KEY").is_some();
        let has_token = service["environment"].get("CRAWLER_DASHBOARD_TOKEN").is_some();
        assert_eq!(has_token, ["frontier", "worker", "dashboard", "prometheus"].contains(&name), "{name}");
        assert_eq!(has_key, name == "frontier", "only the frontier queries the service");
        // Redis has no password: only the crawler may reach it.
        let networks = strings(&service["networks"]);
        let is_inside = networks.contains(&"inside".to_owned());
        assert_eq!(is_inside, !["prometheus", "grafana"].contains(&name), "{name}: {networks:?}");
        let is_monitored = networks.contains(&"monitoring".to_owned());
        assert_eq!(is_monitored, name != "redis" && !TOOLS.contains(&name), "{name}: {networks:?}");
        // A port is published only if a network of the container reaches the host.
        let has_port = !strings(&service["ports"]).is_empty();
        assert!(!has_port || networks.contains(&"outside".to_owned()), "{name}: {networks:?}");
    }
    assert_eq!(strings(&composition.service("redis")["networks"]), ["inside"]);
    for internal in ["inside", "monitoring"] {
        assert_eq!(composition.document["networks"][internal]["internal"], true);
    }
    let grafana = &composition.service("grafana")["environment"];
    assert_eq!(grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"], "true", "its password is known");
    assert_eq!(composition.service("redis")["user"], "redis");
    let user = composition.instruction("USER");
    assert!(
        user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user} is not an unprivileged user ID"
    );
    assert_eq!(composition.instruction("WORKDIR"), "/data", "where the volume is");
}

#[test]
fn prometheus_gets_the_token_in_a_file_that_its_configuration_names() {
    let composition = Composition::read();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = fs::read_to_string(root.join("contrib/prometheus/prometheus.yml")).unwrap();
    let config: Value = serde_saphyr::from_str(&config).unwrap();
    let in_memory = strings(&composition.service("prometheus")["tmpfs"]);
    let in_memory = in_memory[0].split(':').next().unwrap();
    let directory = TempDir::new().unwrap();
    let inside = |path: &str| path.replace(in_memory, directory.path().to_str().unwrap());
    let start = |token: &str| {
        let words = composition.words("prometheus");
        let mut command = Command::new(&words[0]);
        // Compose replaces `$$`. The program prints its arguments.
        let script = |word: &String| inside(word).replace("$$", "$").replace("/bin/prometheus", "echo");
        command.args(words[1..].iter().map(script)).env("CRAWLER_DASHBOARD_TOKEN", token);
        run(command)
    };
    let (output, error) = texts(&start(""));
    assert!(output.is_empty() && error.contains("CRAWLER_DASHBOARD_TOKEN: is not set"), "{output}{error}");
    let (output, error) = texts(&start(TOKEN));
    assert!(
        output.starts_with("--config.file=/etc/prometheus/prometheus.yml ") && error.is_empty(),
        "{error}"
    );
    let jobs = config["scrape_configs"].as_array().unwrap();
    for job in jobs {
        let path = inside(job["authorization"]["credentials_file"].as_str().unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), TOKEN);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let targets = jobs.iter().map(|job| &job["static_configs"][0]["targets"][0]);
    assert!(targets.into_iter().any(|target| target == "dashboard:8080"));
}

#[test]
fn image_is_built_with_a_recent_compiler_from_existing_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Composition { dockerfile, .. } = Composition::read();
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let image = dockerfile.lines().find_map(|line| line.strip_prefix("FROM rust:")).unwrap();
    let compiler = version(image.split('-').next().unwrap());
    assert!(compiler >= version(env!("CARGO_PKG_RUST_VERSION")), "{compiler:?}");
    let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
    for copied in dockerfile.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        if copied.starts_with("--from") {
            continue;
        }
        let sources: Vec<&str> = copied.split(' ').collect();
        for source in &sources[..sources.len() - 1] {
            assert!(root.join(source).exists(), "{source}");
            assert!(ignored.lines().any(|line| line == format!("!{source}")), "{source} is ignored");
        }
    }
}
