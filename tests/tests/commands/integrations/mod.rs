//! Other software that uses the product.

mod fail2ban;
mod sets;
