//! The way to one server, for all who want something of it at the same moment: while one batch is under way the next
//! gathers, so that the more is going on the less each command costs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::super::address::Node;
use super::super::scripts::{self, Lua};
use super::failure::Failure;
use super::patience::{Patience, longer};
use super::reply::Reply;
use super::wire::{Access, Wire};

/// A batch is not made larger than this, so that nobody waits long for what others want.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// How long a connection, and an answer, may take: far longer than any does, so that only an outage does.
const CONNECT: Duration = Duration::from_secs(2);
const RESPONSE: Duration = Duration::from_secs(5);

/// How long they may take at most from a server that has become slow. Not longer, because what was sent while the
/// network was gone may arrive late or never, where a new connection would be answered at once.
const LONGEST: Duration = Duration::from_secs(10);

/// What went over all links.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) connections: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) commands: AtomicU64,
}

/// What all links have in common.
pub(super) struct Common {
    pub(super) access: Access,
    pub(super) patience: Arc<Patience>,
    pub(super) traffic: Traffic,
    /// Whether who is connected to must be told from a replica: where it was somebody else who said where it is.
    pub(super) asks_for_role: bool,
}

/// How many replicas should have what was written, and how long that may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmation {
    pub(super) replicas: u32,
    pub(super) within: Duration,
}

/// What somebody wants.
pub(super) struct Order {
    pub(super) bytes: Vec<u8>,
    /// How many commands the bytes are.
    pub(super) commands: usize,
    pub(super) confirmation: Option<Confirmation>,
}

/// What came of it.
pub(super) struct Delivery {
    pub(super) replies: Vec<Reply>,
    /// How many replicas confirmed, where that was asked for.
    pub(super) confirmed: i64,
}

type Answer = oneshot::Sender<Result<Delivery, Failure>>;

/// The way to one server; it closes when this is dropped.
pub(super) struct Link {
    orders: mpsc::UnboundedSender<(Order, Answer)>,
    is_stale: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(node: Node, is_named: bool, common: Arc<Common>) -> Link {
        let (orders, coming) = mpsc::unbounded_channel();
        let is_stale = Arc::new(AtomicBool::new(false));
        let courier = Courier {
            node,
            is_named,
            common,
            coming,
            gathered: VecDeque::new(),
            wire: None,
            is_stale: Arc::clone(&is_stale),
            lacks_scripts: false,
            pause: None,
            slowness: Slowness(1),
        };
        tokio::spawn(courier.run());
        Link { orders, is_stale }
    }

    /// Sends an order on its way.
    pub(super) fn send(&self, order: Order) -> oneshot::Receiver<Result<Delivery, Failure>> {
        let (answer, answered) = oneshot::channel();
        // Who has no courier any more is told so by the answer that never comes.
        let _ = self.orders.send((order, answer));
        answered
    }

    /// Who is connected to is not whom we want any more: its name is looked up again, and may lead to another.
    pub(super) fn reconnect(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

/// Carries orders to the server, batch by batch.
struct Courier {
    node: Node,
    /// Failures name the node: it is one of several.
    is_named: bool,
    common: Arc<Common>,
    coming: mpsc::UnboundedReceiver<(Order, Answer)>,
    gathered: VecDeque<(Order, Answer)>,
    wire: Option<Wire>,
    is_stale: Arc<AtomicBool>,
    lacks_scripts: bool,
    /// How long to wait before the next connection; nothing while all is well.
    pause: Option<Duration>,
    slowness: Slowness,
}

impl Courier {
    async fn run(mut self) {
        while self.gather().await {
            let (mut batch, mut answers, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((order, answer)) = self.gathered.pop_front() {
                bytes += order.bytes.len();
                batch.push(order);
                answers.push(answer);
                let next = self.gathered.front().map_or(0, |(order, _)| order.bytes.len());
                if bytes + next > MOST_BYTES {
                    break;
                }
            }
            match self.carry(&batch).await {
                Ok(deliveries) => {
                    for (answer, delivery) in answers.into_iter().zip(deliveries) {
                        // Who asked may have gone.
                        let _ = answer.send(Ok(delivery));
                    }
                }
                Err(failure) => {
                    let failure = if self.is_named { failure.of(&self.node) } else { failure };
                    for answer in answers {
                        let _ = answer.send(Err(failure.clone()));
                    }
                }
            }
        }
    }

    /// Waits for orders; tells whether any will come.
    async fn gather(&mut self) -> bool {
        if self.gathered.is_empty() {
            match self.coming.recv().await {
                Some(order) => self.gathered.push_back(order),
                None => return false,
            }
            // Others who are about to ask go along.
            yield_now().await;
        }
        while let Ok(order) = self.coming.try_recv() {
            self.gathered.push_back(order);
        }
        true
    }

    /// Carries out a batch in one round trip, over a new connection if need be.
    async fn carry(&mut self, batch: &[Order]) -> Result<Vec<Delivery>, Failure> {
        if self.is_stale.swap(false, Ordering::Relaxed) {
            self.wire = None;
        }
        let carried = match self.wire.take() {
            Some(wire) => self.exchange(wire, batch).await,
            None => match self.connect().await {
                Ok(wire) => self.exchange(wire, batch).await,
                Err(failure) => Err(failure),
            },
        };
        // The first try after a failure comes at once: it is mostly a connection that was idle for too long.
        self.pause = carried.is_err().then(|| self.pause.map_or(Duration::ZERO, longer));
        carried
    }

    async fn connect(&mut self) -> Result<Wire, Failure> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        let mut wire = self.slowness.wait(CONNECT, Wire::open(&self.node, &self.common.access)).await?;
        if self.common.asks_for_role {
            let role = self.slowness.wait(CONNECT, wire.ask(&[cmd("ROLE")])).await?.pop();
            if let Some(Ok(Value::Array(role))) = role
                && !matches!(role.first(), Some(Value::BulkString(role)) if role == b"master")
            {
                return Err(Failure::answered("READONLY this is not the primary any more, or not yet"));
            }
        }
        self.common.traffic.connections.fetch_add(1, Ordering::Relaxed);
        Ok(wire)
    }

    async fn exchange(&mut self, mut wire: Wire, batch: &[Order]) -> Result<Vec<Delivery>, Failure> {
        if self.lacks_scripts {
            self.slowness
                .wait(RESPONSE, wire.ask(&loads(scripts::all())))
                .await?
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?;
            self.lacks_scripts = false;
        }
        let mut bytes = Vec::with_capacity(batch.iter().map(|order| order.bytes.len()).sum::<usize>() + 64);
        batch.iter().for_each(|order| bytes.extend_from_slice(&order.bytes));
        let commands: usize = batch.iter().map(|order| order.commands).sum();
        let wanted = strictest(batch);
        if let Some(Confirmation { replicas, within }) = wanted {
            // It speaks for everything that was written over this connection before, so one is enough for all.
            cmd("WAIT").arg(replicas).arg(within.as_millis() as u64).write_packed_command(&mut bytes);
        }
        let traffic = &self.common.traffic;
        traffic.batches.fetch_add(1, Ordering::Relaxed);
        traffic.commands.fetch_add(commands as u64, Ordering::Relaxed);
        let limit = RESPONSE + wanted.map_or(Duration::ZERO, |wanted| wanted.within);
        let expected = commands + usize::from(wanted.is_some());
        let mut replies = self.slowness.wait(limit, wire.exchange(&bytes, expected)).await?;
        let confirmed = match wanted.and_then(|_| replies.pop()) {
            Some(Ok(Value::Int(confirmed))) => confirmed,
            Some(Err(failure)) if failure.is_of_a_replica() => {
                return Err(Failure::Cut("it became a replica, and what it did is lost".into()));
            }
            _ => 0,
        };
        self.lacks_scripts =
            replies.iter().any(|reply| reply.as_ref().is_err_and(|failure| failure.is("NOSCRIPT")));
        self.wire = Some(wire);
        let mut replies = replies.into_iter();
        let deliver =
            |order: &Order| Delivery { replies: replies.by_ref().take(order.commands).collect(), confirmed };
        Ok(batch.iter().map(deliver).collect())
    }
}

/// How slow a server has become: it is asked in vain if nobody waits for its answers.
struct Slowness(u32);

impl Slowness {
    const MOST: u32 = 8;

    /// Waits for something, and the longer the slower it has been lately.
    async fn wait<T>(
        &mut self,
        limit: Duration,
        what: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = (limit * self.0).min(LONGEST.max(limit));
        let begun = Instant::now();
        match timeout(limit, what).await {
            Ok(done) => {
                if begun.elapsed() < limit / 4 {
                    self.0 = (self.0 / 2).max(1);
                }
                done
            }
            Err(_) => {
                self.0 = (self.0 * 2).min(Slowness::MOST);
                Err(Failure::Cut(format!("no answer within {} s", limit.as_secs())))
            }
        }
    }
}

fn strictest(batch: &[Order]) -> Option<Confirmation> {
    let all = batch.iter().filter_map(|order| order.confirmation);
    all.reduce(|one, other| Confirmation {
        replicas: one.replicas.max(other.replicas),
        within: one.within.max(other.within),
    })
}

/// What teaches a server scripts of ours.
pub(super) fn loads(scripts: impl Iterator<Item = &'static Lua>) -> Vec<Cmd> {
    let load = |lua: &Lua| {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(lua.text);
        load
    };
    scripts.map(load).collect()
}
