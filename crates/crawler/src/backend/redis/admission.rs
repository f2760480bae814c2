//! The way in: what was found is sorted by where it belongs, and only what Redis may not know is told.

use std::collections::BTreeMap;

use super::super::{AdmitCounts, BackendError, DiscoveredUrl, Outlinks};
use super::completion::CONFIRMATION;
use super::connection::Call;
use super::moves::Moves;
use super::scripts;
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::task::Depth;

/// So many URLs are admitted by one script, so that nobody waits long for it.
const AT_ONCE: usize = 500;

/// How many bytes of a URL's id are not 0.
pub(super) const ID_BYTES: usize = 7;

/// A host is looked for among so many that were met last: most links of a page share their hosts with those before.
const LATEST_HOSTS: usize = 8;

/// What was found of one host, at one depth.
struct OfHost<'a> {
    host: &'a str,
    domain: Domain,
    depth: Depth,
    redirects: u8,
    found: Vec<(u64, &'a str)>,
}

/// What one script admits: and the domains that the page links to, each once.
#[derive(Default)]
pub(super) struct Batch<'a> {
    linked: Vec<&'a Domain>,
    hosts: Vec<OfHost<'a>>,
    size: usize,
}

impl Batch<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Tells a script, and the page on which all this was found.
    pub(super) fn tell(&self, call: &mut Call, found_on: Option<u64>) {
        call.arg(found_on.map_or_else(Vec::new, |id| id.to_le_bytes()[..ID_BYTES].to_vec()));
        call.arg(self.linked.len());
        for domain in &self.linked {
            call.arg(domain.as_str());
        }
        // The ids come together, because they are looked up together.
        call.arg(self.hosts.iter().map(|of_host| of_host.found.len()).sum::<usize>());
        for (id, _) in self.hosts.iter().flat_map(|of_host| &of_host.found) {
            call.arg(*id);
        }
        call.arg(self.hosts.len());
        for OfHost { host, domain, depth, redirects, found } in &self.hosts {
            call.arg(domain.as_str()).arg(*host).arg(*depth).arg(*redirects).arg(found.len());
            for (_, url) in found {
                call.arg(*url);
            }
        }
    }
}

/// What was found on a page, sorted.
pub(super) struct Sorted<'a> {
    /// By partition, each in parts of which one script makes short work.
    pub(super) batches: BTreeMap<usize, Vec<Batch<'a>>>,
    /// How many Redis need not be told of.
    pub(super) known: u64,
    /// Those that it is told of, and since when.
    told: Vec<(u64, Depth)>,
    at: u64,
}

impl<'a> Sorted<'a> {
    /// Takes out the last part of a partition: the others go before.
    pub(super) fn take_last(&mut self, partition: usize) -> Batch<'a> {
        self.batches.get_mut(&partition).and_then(Vec::pop).unwrap_or_default()
    }
}

/// A URL that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    url: &'a str,
    depth: Depth,
    redirects: u8,
}

/// The URLs that a page links to.
pub(super) fn on_page(outlinks: &Outlinks) -> impl Iterator<Item = Found<'_>> {
    let Outlinks { urls, depth, redirects, .. } = outlinks;
    urls.iter().map(|url| Found { url, depth: *depth, redirects: *redirects })
}

impl Moves {
    pub(super) async fn admit(&self, found: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        let seeds =
            found.iter().map(|seed| Found { url: &seed.url, depth: seed.depth, redirects: seed.redirects });
        let sorted = self.sorted(seeds, &[]);
        let admissions = self.admissions(&sorted, None);
        // Nobody finds again what only these seeds lead to.
        let counts = self.connection.all_confirmed(admissions, self.replicas, CONFIRMATION).await?;
        let counts = counts.into_iter().map(|counts| self.connection.read(counts));
        let counts = counts.collect::<Result<Vec<(u64, u64)>, _>>()?;
        let AdmitCounts { new, seen: known } = sum(&counts);
        let known = known + sorted.known;
        self.acknowledged(sorted);
        Ok(AdmitCounts { new, seen: known })
    }

    /// Sorts what was found on a page, and the domains that it links to, by where they belong.
    pub(super) fn sorted<'a>(
        &self,
        found: impl Iterator<Item = Found<'a>>,
        linked: &'a [Domain],
    ) -> Sorted<'a> {
        let at = self.clock();
        let mut with_ids: Vec<(u64, Found)> =
            found.map(|found| (self.key.short_url_id(found.url), found)).collect();
        let known = self.recent.untold(&mut with_ids, |(id, found)| (*id, found.depth));
        let told = with_ids.iter().map(|(id, found)| (*id, found.depth)).collect();
        let mut batches: BTreeMap<usize, Vec<Batch>> = BTreeMap::new();
        for domain in linked {
            last(&mut batches, self.keys.of_domain(domain)).linked.push(domain);
        }
        for of_host in by_host(&with_ids) {
            let partition = self.keys.of_domain(&of_host.domain);
            let OfHost { host, domain, depth, redirects, found } = of_host;
            for found in found.chunks(AT_ONCE) {
                let parts = batches.entry(partition).or_default();
                if parts.last().is_none_or(|part| part.size + found.len() > AT_ONCE) {
                    parts.push(Batch::default());
                }
                let batch = last(&mut batches, partition);
                batch.size += found.len();
                let (domain, found) = (domain.clone(), found.to_vec());
                batch.hosts.push(OfHost { host, domain, depth, redirects, found });
            }
        }
        Sorted { batches, known, told, at }
    }

    /// The scripts that admit what was sorted, and found on a page.
    pub(super) fn admissions(&self, sorted: &Sorted, found_on: Option<u64>) -> Vec<Call> {
        let batches = sorted.batches.iter().flat_map(|(partition, batches)| {
            batches.iter().map(|batch| {
                let mut call = self.on(*partition, &scripts::ADMIT);
                batch.tell(&mut call, found_on);
                call
            })
        });
        batches.collect()
    }

    /// Redis knows all of these now.
    pub(super) fn acknowledged(&self, sorted: Sorted) {
        self.recent.told(sorted.at, sorted.told);
    }
}

/// The part that is being filled.
fn last<'b, 'a>(batches: &'b mut BTreeMap<usize, Vec<Batch<'a>>>, partition: usize) -> &'b mut Batch<'a> {
    let parts = batches.entry(partition).or_default();
    if parts.is_empty() {
        parts.push(Batch::default());
    }
    let index = parts.len() - 1;
    &mut parts[index]
}

fn by_host<'a>(found: &[(u64, Found<'a>)]) -> Vec<OfHost<'a>> {
    let mut hosts: Vec<OfHost> = Vec::new();
    for &(id, Found { url, depth, redirects }) in found {
        let host = throttle_key(url);
        let latest = hosts.len().saturating_sub(LATEST_HOSTS);
        let same_host = hosts[latest..].iter().rposition(|other| other.host == host).map(|at| latest + at);
        match same_host {
            Some(at) if (hosts[at].depth, hosts[at].redirects) == (depth, redirects) => {
                hosts[at].found.push((id, url));
            }
            other => {
                let domain = other.map_or_else(|| Domain::from_url_str(url), |at| hosts[at].domain.clone());
                hosts.push(OfHost { host, domain, depth, redirects, found: vec![(id, url)] });
            }
        }
    }
    hosts
}

pub(super) fn sum(counts: &[(u64, u64)]) -> AdmitCounts {
    AdmitCounts {
        new: counts.iter().map(|(new, _)| new).sum(),
        seen: counts.iter().map(|(_, known)| known).sum(),
    }
}
