//! Other software that uses the product.

mod crowdsec;
mod fail2ban;
mod sets;
