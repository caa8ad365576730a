//! Other software that uses the product.

mod console;
mod fail2ban;
mod sets;
