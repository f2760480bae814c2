//! What holds the requests of a running worker up: its network, and files of robots.txt. It is reported to Redis within a second, for
//! displays.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{MemberReport, Membership, Notice, STATUS_INTERVAL};
use crate::backend::redis::{DistributedCrawl, Role};
use crate::fetch::network::NetworkMonitor;
use crate::fetch::robots::waits::RobotsWaits;
use crate::log;
use crate::time_text::time_text;

/// The most sites that a worker reports.
const MAX_ROBOTS_WAITS: usize = 100;

/// What holds the requests of a worker up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerCondition {
    /// For how many seconds the network of its machine has been down.
    pub(super) network_down: Option<u64>,
    /// The sites whose URLs wait for a robots.txt, and why it could not be fetched.
    pub(super) robots_waits: BTreeMap<String, String>,
}

/// Reports the condition of a worker.
pub(super) struct ConditionReporter {
    control: Arc<DistributedCrawl>,
    role: Role,
    token: String,
    network: Arc<NetworkMonitor>,
    robots_waits: RobotsWaits,
    notice: Notice,
}

impl ConditionReporter {
    pub(super) fn new(
        membership: &Membership,
        network: Arc<NetworkMonitor>,
        robots_waits: RobotsWaits,
        notice: Notice,
    ) -> ConditionReporter {
        let (control, token) = (Arc::clone(&membership.control), membership.identity.token.clone());
        ConditionReporter { control, role: membership.role, token, network, robots_waits, notice }
    }

    /// Reports the condition whenever it has changed.
    pub(super) async fn keep_reporting(&self) -> Infallible {
        let mut last = WorkerCondition::default();
        loop {
            sleep(STATUS_INTERVAL).await;
            let condition = WorkerCondition {
                network_down: self.network.down_for().map(|time| time.as_secs()),
                robots_waits: self.robots_waits.sites(MAX_ROBOTS_WAITS),
            };
            if condition == last {
                continue;
            }
            self.print_network(last.network_down, condition.network_down);
            let report = MemberReport { condition: condition.clone(), ..MemberReport::default() };
            last = condition;
            // Displays do without it. The network may be down to Redis, too.
            let _ = report.store_of_member(&self.control, self.role, &self.token).await;
        }
    }

    fn print_network(&self, before: Option<u64>, now: Option<u64>) {
        match (before, now) {
            (None, Some(_)) => {
                let message =
                    "the network of this machine is down: requests wait, and no URL fails meanwhile";
                log::warned(&*self.notice, message);
            }
            (Some(seconds), None) => {
                let time = time_text(Duration::from_secs(seconds));
                log::informed(&*self.notice, &format!("requests continue: the network was down for {time}"));
            }
            _ => {}
        }
    }
}
