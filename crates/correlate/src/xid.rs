//! Names of XIDs: the errors that NVIDIA's driver reports by number.
//!
//! Source: NVIDIA's catalogue of XIDs (state of October 2025), the codes in use, in our words. A code says what the driver saw,
//! not whose fault it is: 13, 31 and 43 come from applications as a rule, 45 follows from another error, 171 and 172 are
//! details of a 48.

/// Code and name, by code.
const NAMES: [(u16, &str); 109] = [
    (8, "GPU stopped processing"),
    (11, "invalid push buffer stream"),
    (13, "graphics engine exception"),
    (25, "illegal push buffer stream"),
    (31, "GPU memory page fault"),
    (32, "corrupted push buffer (PBDMA)"),
    (37, "driver firmware error"),
    (38, "driver firmware error (watchdog)"),
    (39, "copy engine 0 error"),
    (40, "copy engine 1 error"),
    (41, "copy engine 2 error"),
    (43, "GPU stopped processing (channel reset)"),
    (44, "graphics engine fault during context switch"),
    (45, "preemptive cleanup after another error"),
    (46, "GPU stopped processing (timeout)"),
    (48, "double bit ECC error"),
    (54, "auxiliary power not connected"),
    (60, "video processor exception"),
    (62, "internal microcontroller halt"),
    (63, "memory row remapping or page retirement"),
    (64, "memory row remapping or page retirement failed"),
    (66, "illegal access by driver"),
    (67, "illegal access by driver (verification)"),
    (68, "NVDEC 0 error"),
    (69, "graphics engine class error"),
    (70, "copy engine 3 error"),
    (71, "copy engine 4 error"),
    (72, "copy engine 5 error"),
    (74, "NVLink error"),
    (75, "copy engine 6 error"),
    (76, "copy engine 7 error"),
    (77, "copy engine 8 error"),
    (78, "vGPU start error"),
    (79, "GPU has fallen off the bus"),
    (80, "corrupted data sent to GPU"),
    (82, "NVJPG 0 error"),
    (83, "NVDEC 1 error"),
    (84, "NVDEC 2 error"),
    (85, "copy engine 9 error"),
    (86, "OFA exception"),
    (88, "NVDEC 3 error"),
    (89, "NVDEC 4 error"),
    (92, "high single bit ECC error rate"),
    (93, "InfoROM wear limit exceeded"),
    (94, "contained memory error"),
    (95, "uncontained memory error"),
    (96, "NVDEC 5 error"),
    (97, "NVDEC 6 error"),
    (98, "NVDEC 7 error"),
    (99, "NVJPG 1 error"),
    (100, "NVJPG 2 error"),
    (101, "NVJPG 3 error"),
    (102, "NVJPG 4 error"),
    (103, "NVJPG 5 error"),
    (104, "NVJPG 6 error"),
    (105, "NVJPG 7 error"),
    (106, "SMBPBI test message"),
    (107, "SMBPBI test message (silent)"),
    (109, "context switch timeout"),
    (110, "security fault"),
    (119, "GSP RPC timeout"),
    (120, "GSP error"),
    (121, "C2C link error"),
    (126, "copy engine 10 error"),
    (127, "copy engine 11 error"),
    (128, "copy engine 12 error"),
    (129, "copy engine 13 error"),
    (130, "copy engine 14 error"),
    (131, "copy engine 15 error"),
    (132, "copy engine 16 error"),
    (133, "copy engine 17 error"),
    (134, "copy engine 18 error"),
    (135, "copy engine 19 error"),
    (136, "link training failed"),
    (137, "NVLink privilege error"),
    (139, "OFA 1 error"),
    (140, "unrecovered ECC error"),
    (141, "CUDA fast path error"),
    (142, "NVENC 3 error"),
    (143, "GPU initialisation error"),
    (144, "NVLink 5 error (SAW)"),
    (145, "NVLink 5 error (RLW)"),
    (146, "NVLink 5 error (TLW)"),
    (147, "NVLink 5 error (TREX)"),
    (148, "NVLink 5 error (NVLPW_CTRL)"),
    (149, "NVLink 5 error (NETIR)"),
    (150, "NVLink 5 error (MSE)"),
    (151, "key rotation error"),
    (152, "DLA SMMU error"),
    (153, "DLA timeout"),
    (154, "GPU recovery action changed"),
    (155, "NVLink error defined by software"),
    (156, "resource retirement"),
    (157, "resource retirement failed"),
    (158, "GPU fatal timeout"),
    (159, "CHI non-data error"),
    (160, "channel retirement"),
    (161, "channel retirement failed"),
    (162, "power smoothing engaged again"),
    (163, "power smoothing disengaged"),
    (164, "power smoothing hardware near its end of life"),
    (165, "power smoothing hardware at its end of life"),
    (166, "traffic before the link was encrypted"),
    (167, "PCIe fatal timeout"),
    (168, "errors in the write protected memory region"),
    (169, "internal microcontroller halt (SEC2)"),
    (170, "interrupt in confidential computing mode"),
    (171, "uncorrectable DRAM error (detail of XID 48)"),
    (172, "uncorrectable SRAM error (detail of XID 48)"),
];

/// The name of an XID; `None` for a code that is unused or not known yet.
pub fn name(code: i64) -> Option<&'static str> {
    let code = u16::try_from(code).ok()?;
    let idx = NAMES.binary_search_by_key(&code, |(code, _)| *code).ok()?;
    NAMES.get(idx).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, name};

    #[test]
    fn codes_are_in_order_and_every_code_finds_its_name() {
        assert!(NAMES.is_sorted_by(|(one, _), (next, _)| one < next));
        for (code, expected) in NAMES {
            assert_eq!(name(i64::from(code)), Some(expected));
        }
    }

    #[test]
    fn what_is_no_code_has_no_name() {
        for code in [0, 1, -79, 65_536 + 79, 9_999, i64::MIN, i64::MAX] {
            assert_eq!(name(code), None, "{code}");
        }
    }
}
