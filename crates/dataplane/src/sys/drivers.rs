//! What drivers with native XDP require. The kernel tells only that a driver has it, and a driver that refuses has often
//! no words. The numbers are those of x86 with pages of 4 KiB, and of programs that receive frames in several buffers.
//!
//! `docs/troubleshooting.md` has the same table, which a test compares.

use super::{
    ethtool::{Channels, Ethtool},
    interface::Interface,
};

/// A driver of network cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Its name, as the kernel says it.
    pub name: &'static str,
    /// Whether it has native XDP.
    pub has_native: bool,
    /// The largest MTU with which it accepts a program. None without a bound.
    pub most_mtu: Option<u32>,
    /// The offloads with which it refuses a program, by the names of `ethtool -K`.
    pub refuses_offloads: &'static [&'static str],
    /// How many of the most possible receive queues it may have.
    pub queues: Queues,
    /// Whether the first program, and the removal of the last one, interrupt the link for a moment.
    pub resets: bool,
    /// Where the kernel says so, in Linux 6.12.
    pub source: &'static str,
}

/// How many receive queues a driver accepts with a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// All.
    All,
    /// At most half of the most possible ones, because each needs one that sends. If others send, as many of both.
    Half,
    /// Only those that also send. With a program, each needs one more that sends.
    Combined,
}

const NONE: &[&str] = &[];
const LRO: &[&str] = &["rx-lro"];
const JOINING: &[&str] = &["rx-lro", "rx-gro-hw"];

/// The known drivers, sorted by name.
pub const DRIVERS: &[Driver] = &[
    Driver::new("bnxt_en", "broadcom/bnxt/bnxt_xdp.c, `bnxt_xdp_set`").combined().resetting(),
    Driver::without("e1000e", "intel/e1000e/netdev.c"),
    Driver::new("ena", "amazon/ena/ena_xdp.c, `ena_xdp_set`").mtu(3_498).half().resetting(),
    Driver::new("gve", "google/gve/gve_main.c, `verify_xdp_configuration`").mtu(2_032).offloads(LRO).half().resetting(),
    Driver::new("hv_netvsc", "drivers/net/hyperv/netvsc_bpf.c, `netvsc_xdp_set`").mtu(3_506).offloads(LRO),
    Driver::new("i40e", "intel/i40e/i40e_main.c, `i40e_xdp_setup`").resetting(),
    Driver::new("ice", "intel/ice/ice_main.c, `ice_xdp_setup_prog`").resetting(),
    Driver::new("igb", "intel/igb/igb_main.c, `igb_xdp_setup`").mtu(3_046).resetting(),
    Driver::new("igc", "intel/igc/igc_xdp.c, `igc_xdp_set_prog`").mtu(1_500).resetting(),
    Driver::new("ixgbe", "intel/ixgbe/ixgbe_main.c, `ixgbe_xdp_setup`").mtu(3_050).offloads(LRO).resetting(),
    Driver::new("mana", "microsoft/mana/mana_bpf.c, `mana_xdp_set`").mtu(3_506),
    Driver::new("mlx4_en", "mellanox/mlx4/en_netdev.c, `mlx4_xdp_set`").mtu(3_498).resetting(),
    Driver::new("mlx5_core", "mellanox/mlx5/core/en_main.c, `mlx5e_xdp_allowed`").offloads(JOINING).resetting(),
    Driver::new("mvneta", "marvell/mvneta.c, `mvneta_xdp_setup`").resetting(),
    Driver::without("r8169", "realtek/r8169_main.c"),
    Driver::new("st_gmac", "stmicro/stmmac/stmmac_xdp.c, `stmmac_xdp_set_prog`").mtu(1_500).resetting(),
    Driver::new("st_xgmac", "stmicro/stmmac/stmmac_xdp.c, `stmmac_xdp_set_prog`").mtu(1_500).resetting(),
    Driver::without("tg3", "broadcom/tg3.c"),
    Driver::new("tun", "drivers/net/tun.c, `tun_xdp_set`"),
    Driver::new("veth", "drivers/net/veth.c, `veth_xdp_set`"),
    Driver::new("virtio_net", "drivers/net/virtio_net.c, `virtnet_xdp_set`"),
    Driver::new("vmxnet3", "drivers/net/vmxnet3/vmxnet3_xdp.c, `vmxnet3_xdp_set`").mtu(3_494).resetting(),
];

impl Driver {
    const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            has_native: true,
            most_mtu: None,
            refuses_offloads: NONE,
            queues: Queues::All,
            resets: false,
            source,
        }
    }

    const fn without(name: &'static str, source: &'static str) -> Self {
        Self { has_native: false, ..Self::new(name, source) }
    }

    const fn mtu(self, most: u32) -> Self {
        Self { most_mtu: Some(most), ..self }
    }

    const fn offloads(self, refused: &'static [&'static str]) -> Self {
        Self { refuses_offloads: refused, ..self }
    }

    const fn half(self) -> Self {
        Self { queues: Queues::Half, ..self }
    }

    const fn combined(self) -> Self {
        Self { queues: Queues::Combined, ..self }
    }

    const fn resetting(self) -> Self {
        Self { resets: true, ..self }
    }

    /// Returns the most receive queues with which the driver accepts a program, as far as that is known. One is always
    /// left, although the driver then refuses.
    #[must_use]
    pub fn most_queues(&self, channels: &Channels) -> u32 {
        let (_, most) = channels.totals();
        match self.queues {
            Queues::All => most,
            Queues::Half if channels.sends_apart() => (most.min(channels.sending.1) / 2).max(1),
            Queues::Half => (most / 2).max(1),
            Queues::Combined => (channels.combined.1 / 2).max(1),
        }
    }

    /// Returns why the driver would refuse a program now. `is_on` tells whether an offload is on.
    #[must_use]
    pub fn refusal(
        &self,
        interface: &str,
        mtu: u32,
        channels: Option<Channels>,
        is_on: impl Fn(&str) -> bool,
    ) -> Option<Refusal> {
        let Self { name, .. } = self;
        if let Some(most) = self.most_mtu.filter(|most| mtu > *most) {
            let why = format!("its driver ({name}) refuses native XDP above an MTU of {most}, and it is {mtu}");
            return Some(Refusal { why, fix: Some(format!("ip link set {interface} mtu {most}")) });
        }
        if let Some(offload) = self.refuses_offloads.iter().find(|offload| is_on(offload)) {
            let why = format!("its driver ({name}) refuses native XDP while {offload} is on");
            return Some(Refusal { why, fix: Some(format!("ethtool -K {interface} {offload} off")) });
        }
        let channels = channels?;
        let ((now, most), accepted) = (channels.totals(), self.most_queues(&channels));
        let (receiving, sending) = (channels.receiving.0, channels.sending.0);
        let (why, can) = match self.queues {
            Queues::Half if now > accepted || most < 2 => (
                format!("its driver ({name}) accepts native XDP with half of its {most} queues, and has {now}"),
                most >= 2,
            ),
            Queues::Half if channels.sends_apart() && receiving != sending => {
                let apart = format!("and {receiving} receive while {sending} send");
                (
                    format!(
                        "its driver ({name}) accepts native XDP with as many sending queues as receiving ones, {apart}"
                    ),
                    true,
                )
            }
            Queues::Combined if receiving != 0 => {
                let can = channels.combined.1 != 0;
                (
                    format!("its driver ({name}) accepts native XDP only with combined queues, and has separate ones"),
                    can,
                )
            }
            _ => return None,
        };
        let fix = || channels.command(interface, now.min(accepted), Some(self));
        Some(Refusal { why, fix: can.then(fix) })
    }
}

/// Why a driver would refuse a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason in words.
    pub why: String,
    /// The command after which it does not. None if there is none.
    pub fix: Option<String>,
}

impl Channels {
    /// Returns how many queues receive, and the most possible.
    #[must_use]
    pub fn totals(&self) -> (u32, u32) {
        (self.receiving.0 + self.combined.0, self.receiving.1.max(self.combined.1))
    }

    /// Returns whether queues of their own send.
    #[must_use]
    pub fn sends_apart(&self) -> bool {
        self.sending.0 != 0
    }

    /// Returns the command that sets the number of receive queues. A driver that accepts half of them wants as many that
    /// send. One that wants combined queues has no separate ones beside them.
    #[must_use]
    pub fn command(&self, interface: &str, queues: u32, driver: Option<&Driver>) -> String {
        let is_paired = driver.is_some_and(|driver| driver.queues == Queues::Half) && self.sends_apart();
        let is_separate = driver.is_some_and(|driver| driver.queues == Queues::Combined) && self.receiving.0 != 0;
        match (self.combined.1, is_paired) {
            (0, false) => format!("ethtool -L {interface} rx {queues}"),
            (0, true) => format!("ethtool -L {interface} rx {queues} tx {queues}"),
            _ if is_separate => format!("ethtool -L {interface} rx 0 tx 0 combined {queues}"),
            _ => format!("ethtool -L {interface} combined {queues}"),
        }
    }
}

/// Returns what is known of a driver.
#[must_use]
pub fn of(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.name == name)
}

/// Returns why the driver of this interface would refuse a program now, as far as that is known.
#[must_use]
pub fn refusal(interface: &Interface) -> Option<Refusal> {
    let ethtool = Ethtool::of(&interface.name).ok()?;
    let driver = of(&ethtool.driver()?)?;
    let is_on = |offload: &str| ethtool.feature(offload).is_some_and(|feature| feature.is_on);
    driver.refusal(&interface.name, interface.mtu, ethtool.channels(), is_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(receiving: (u32, u32), combined: (u32, u32)) -> Option<Channels> {
        Some(Channels { receiving, combined, sending: receiving })
    }

    fn fix(name: &str, mtu: u32, channels: Option<Channels>, on: &str) -> Option<String> {
        of(name).unwrap().refusal("eth0", mtu, channels, |offload| offload == on)?.fix
    }

    #[test]
    fn what_a_driver_refuses_is_said_with_the_command_that_ends_it() {
        assert_eq!(fix("vmxnet3", 9_000, None, "").as_deref(), Some("ip link set eth0 mtu 3494"));
        assert_eq!(fix("vmxnet3", 3_494, None, "rx-lro"), None);
        assert_eq!(fix("ena", 9_001, None, "").as_deref(), Some("ip link set eth0 mtu 3498"));
        assert_eq!(fix("ena", 1_500, channels((0, 0), (8, 8)), "").as_deref(), Some("ethtool -L eth0 combined 4"));
        assert_eq!(fix("ena", 1_500, channels((0, 0), (4, 8)), ""), None);
        assert_eq!(fix("gve", 1_460, channels((16, 16), (0, 0)), "").as_deref(), Some("ethtool -L eth0 rx 8 tx 8"));
        assert_eq!(
            fix("gve", 1_460, channels((8, 16), (0, 0)), "rx-lro").as_deref(),
            Some("ethtool -K eth0 rx-lro off")
        );
        assert_eq!(fix("hv_netvsc", 1_500, None, "rx-lro").as_deref(), Some("ethtool -K eth0 rx-lro off"));
        assert_eq!(fix("virtio_net", 9_000, channels((0, 0), (8, 8)), "rx-gro-hw"), None);
        let apart = |receiving, sending| Some(Channels { receiving, sending, combined: (0, 0) });
        let gve = |receiving, sending| fix("gve", 1_460, apart(receiving, sending), "");
        assert_eq!(gve((4, 16), (8, 16)).as_deref(), Some("ethtool -L eth0 rx 4 tx 4"));
        assert_eq!(gve((8, 16), (4, 16)).as_deref(), Some("ethtool -L eth0 rx 8 tx 8"));
        assert_eq!(gve((8, 32), (8, 8)).as_deref(), Some("ethtool -L eth0 rx 4 tx 4"));
        assert_eq!(gve((4, 16), (4, 16)), None);
        let separate = Channels { receiving: (8, 37), sending: (8, 37), combined: (0, 74) };
        assert_eq!(fix("bnxt_en", 1_500, Some(separate), "").as_deref(), Some("ethtool -L eth0 rx 0 tx 0 combined 8"));
        let few = Some(Channels { combined: (0, 8), ..separate });
        assert_eq!(fix("bnxt_en", 1_500, few, "").as_deref(), Some("ethtool -L eth0 rx 0 tx 0 combined 4"));
        assert_eq!(fix("bnxt_en", 1_500, channels((0, 0), (8, 8)), ""), None);
        // With one queue, nothing helps.
        let single = of("ena").unwrap().refusal("eth0", 1_500, channels((0, 0), (1, 1)), |_| false).unwrap();
        assert_eq!(single.fix, None);
    }

    #[test]
    fn drivers_are_sorted_and_each_has_a_source() {
        assert!(DRIVERS.is_sorted_by(|one, other| one.name < other.name));
        assert!(DRIVERS.iter().all(|driver| driver.source.contains(".c")));
        assert!(of("unknown").is_none());
    }

    #[test]
    fn the_document_has_the_same_table() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        for driver in DRIVERS {
            let row = row(driver);
            assert!(page.contains(&row), "docs/troubleshooting.md lacks this line:\n{row}");
        }
        let rows =
            page.lines().filter(|line| line.starts_with("| `") && line.ends_with(".c |") || line.ends_with("` |"));
        let names = DRIVERS.iter().map(|driver| format!("| `{}` |", driver.name));
        assert_eq!(rows.filter(|row| names.clone().any(|name| row.starts_with(&name))).count(), DRIVERS.len());
    }

    /// Returns the line of the document about a driver.
    fn row(driver: &Driver) -> String {
        let Driver { name, source, .. } = driver;
        if !driver.has_native {
            return format!("| `{name}` | none | | | | {source} |");
        }
        let mtu = driver.most_mtu.map_or_else(|| "any".to_owned(), |most| format!("up to {most}"));
        let offloads: Vec<String> = driver.refuses_offloads.iter().map(|offload| format!("`{offload}`")).collect();
        let queues = match driver.queues {
            Queues::All => "any",
            Queues::Half => "at most half",
            Queues::Combined => "combined ones",
        };
        let resets = if driver.resets { "yes" } else { "no" };
        format!("| `{name}` | {mtu} | {} | {queues} | {resets} | {source} |", offloads.join(", "))
    }
}
