//! Other software that uses the product.

mod console;
mod crowdsec;
mod fail2ban;
mod sets;
