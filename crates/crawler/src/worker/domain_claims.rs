//! The domains that a worker sends requests to for URLs of other domains. They are not transferred meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::WorkerId;
use crate::domain::Domain;

/// The claims of one worker.
#[derive(Debug, Default)]
pub(super) struct DomainClaims(Mutex<ClaimedDomains>);

#[derive(Debug, Default)]
struct ClaimedDomains {
    /// How many claims each domain has.
    claims: HashMap<Domain, usize>,
    /// The domains that are being transferred, and their new owners. No lease can claim them.
    leaving: HashMap<Domain, WorkerId>,
}

/// Keeps a domain from being transferred until it is dropped.
#[derive(Debug)]
pub(super) struct DomainClaim {
    claims: Arc<DomainClaims>,
    domain: Domain,
}

impl DomainClaims {
    /// Claims a domain. The error is the worker that the domain is being transferred to.
    pub(super) fn claim(self: &Arc<Self>, domain: Domain) -> Result<DomainClaim, WorkerId> {
        let mut domains = self.domains();
        if let Some(new_owner) = domains.leaving.get(&domain) {
            return Err(*new_owner);
        }
        *domains.claims.entry(domain.clone()).or_default() += 1;
        Ok(DomainClaim { claims: Arc::clone(self), domain })
    }

    pub(super) fn is_claimed(&self, domain: &Domain) -> bool {
        self.domains().claims.contains_key(domain)
    }

    /// Permits no new claim of a domain that is being transferred.
    pub(super) fn start_transfer(&self, domain: Domain, to: WorkerId) {
        self.domains().leaving.insert(domain, to);
    }

    pub(super) fn end_transfer(&self, domain: &Domain) {
        self.domains().leaving.remove(domain);
    }

    fn domains(&self) -> MutexGuard<'_, ClaimedDomains> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DomainClaim {
    fn drop(&mut self) {
        let mut domains = self.claims.domains();
        if let Some(claims) = domains.claims.get_mut(&self.domain) {
            *claims -= 1;
            if *claims == 0 {
                domains.claims.remove(&self.domain);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claimed_domain_is_kept_until_its_last_claim_ends_and_a_leaving_one_cannot_be_claimed() {
        let (claims, domain) = (Arc::<DomainClaims>::default(), Domain::named("a.test"));
        let first = claims.claim(domain.clone()).unwrap();
        let second = claims.claim(domain.clone()).unwrap();
        drop(first);
        assert!(claims.is_claimed(&domain));
        claims.start_transfer(domain.clone(), WorkerId(3));
        drop(second);
        assert!(!claims.is_claimed(&domain));
        assert_eq!(claims.claim(domain.clone()).unwrap_err(), WorkerId(3));
        claims.end_transfer(&domain);
        assert!(claims.claim(domain).is_ok());
    }
}
