-- Question: What did a GPU do, sample by sample?
--   One row per scrape and GPU (or MIG instance). Gauges are as they were at the scrape or a little before. What comes
--   from counters (rates, shares of time, counts of errors) is about the time since the sample before of the same
--   scrape target (`interval_s`); the first sample, and one after a gap of more than 5 minutes, has none of it. Values are
--   those of the device: of pods that share it, each sees all of them.
-- Columns:
--   time (UTC): when it was scraped
--   gpu_uuid: GPU; of a MIG instance, its parent
--   mig_instance: GPU instance id of a MIG instance; absent for the board
--   gpu_model: model
--   k8s_node_name: node
--   host_name: host as the exporter says it
--   k8s_namespace_name: namespace of the one workload on it, as observed
--   k8s_pod_name: pod of the one workload on it; absent for none and for several
--   shared_pods: namespace/pod of each workload, where there are several
--   source: whose names the values have: dcgm, nvidia_smi and so on
--   service_instance_id: scrape target
--   interval_s (s): time since the sample before
--   util_pct (%): time with at least one kernel, in the driver's last sample period
--   gr_engine_active: graphics or compute engine active, 0 to 1
--   sm_active: cycles with a warp on an SM, 0 to 1
--   tensor_active: tensor pipe active, 0 to 1
--   dram_active: memory interface active, 0 to 1
--   fb_used_mib (MiB): memory in use
--   fb_free_mib (MiB): memory free
--   power_w (W): power draw
--   power_limit_w (W): power limit in force
--   temp_c (Cel): temperature
--   mem_temp_c (Cel): temperature of the memory
--   sm_clock_mhz (MHz): clock of the SMs
--   mem_clock_mhz (MHz): clock of the memory
--   throttle_mask: reasons why clocks are reduced at the scrape, as bits (NVML)
--   thermal_throttled: whether heat is among them, by software or hardware
--   energy_w (W): mean power of the interval, from the energy counter
--   thermal_throttle_share: share of the interval below the clocks asked for, because of heat, 0 to 1
--   power_throttle_share: the same because of the power limit
--   nvlink_tx_bytes_per_s (By/s): sent over NVLink, as the exporter says it, else from the counter
--   nvlink_rx_bytes_per_s (By/s): received over NVLink, likewise
--   pcie_tx_bytes_per_s (By/s): device to host over PCIe, likewise
--   pcie_rx_bytes_per_s (By/s): host to device over PCIe, likewise
--   pcie_replays: PCIe retries in the interval
--   nvlink_errors: NVLink errors of all kinds that are told, in the interval
--   ecc_sbe: corrected memory errors in the interval
--   ecc_dbe: uncorrected memory errors in the interval
--   xids: XID errors that appeared in the interval
--   counter_reset: a counter fell: the driver or the exporter was started anew; what it would say is absent
-- Example:
--   SELECT time, util_pct, sm_clock_mhz, temp_c, thermal_throttle_share, energy_w, xids FROM gpu_timeline
--   WHERE gpu_uuid = 'GPU-5fd4c8a1-9a4b-2e6f-0c1d-7b8e9f0a1b2c' AND time > now() - INTERVAL '1 hour' ORDER BY time
SELECT
    time,
    gpu_uuid,
    mig_instance,
    gpu_model,
    k8s_node_name,
    host_name,
    k8s_namespace_name,
    k8s_pod_name,
    shared_pods,
    source,
    service_instance_id,
    interval_ns / 1e9 AS interval_s,
    util_pct,
    gr_engine_active,
    sm_active,
    tensor_active,
    dram_active,
    fb_used_mib,
    fb_free_mib,
    power_w,
    power_limit_w,
    temp_c,
    mem_temp_c,
    sm_clock_mhz,
    mem_clock_mhz,
    throttle_mask,
    -- Bits 0x20 and 0x40.
    throttle_mask & 96 <> 0 AS thermal_throttled,
    CASE WHEN energy_j >= 0 THEN energy_j * 1e9 / interval_ns END AS energy_w,
    CASE WHEN thermal_ns >= 0 THEN least(thermal_ns / interval_ns, 1.0) END AS thermal_throttle_share,
    CASE WHEN power_limited_ns >= 0 THEN least(power_limited_ns / interval_ns, 1.0) END AS power_throttle_share,
    coalesce(nvlink_tx_bytes_per_s, CASE WHEN nvlink_tx_bytes >= 0 THEN nvlink_tx_bytes * 1e9 / interval_ns END)
        AS nvlink_tx_bytes_per_s,
    coalesce(nvlink_rx_bytes_per_s, CASE WHEN nvlink_rx_bytes >= 0 THEN nvlink_rx_bytes * 1e9 / interval_ns END)
        AS nvlink_rx_bytes_per_s,
    coalesce(pcie_tx_bytes_per_s, CASE WHEN pcie_tx_bytes >= 0 THEN pcie_tx_bytes * 1e9 / interval_ns END)
        AS pcie_tx_bytes_per_s,
    coalesce(pcie_rx_bytes_per_s, CASE WHEN pcie_rx_bytes >= 0 THEN pcie_rx_bytes * 1e9 / interval_ns END)
        AS pcie_rx_bytes_per_s,
    CASE WHEN pcie_replays >= 0 THEN pcie_replays END AS pcie_replays,
    CASE WHEN nvlink_errors >= 0 THEN nvlink_errors END AS nvlink_errors,
    CASE WHEN ecc_sbe >= 0 THEN ecc_sbe END AS ecc_sbe,
    CASE WHEN ecc_dbe >= 0 THEN ecc_dbe END AS ecc_dbe,
    xid_events AS xids,
    coalesce(least(
        energy_j, thermal_ns, power_limited_ns, nvlink_tx_bytes, nvlink_rx_bytes, pcie_tx_bytes, pcie_rx_bytes,
        pcie_replays, nvlink_errors, ecc_sbe, ecc_dbe
    ) < 0, false) AS counter_reset
FROM (
    SELECT
        *,
        time_unix_nano - last_value(time_unix_nano) OVER before AS interval_ns,
        energy_total_j - last_value(energy_total_j) OVER before AS energy_j,
        throttle_thermal_total_ns - last_value(throttle_thermal_total_ns) OVER before AS thermal_ns,
        throttle_power_total_ns - last_value(throttle_power_total_ns) OVER before AS power_limited_ns,
        nvlink_tx_total_bytes - last_value(nvlink_tx_total_bytes) OVER before AS nvlink_tx_bytes,
        nvlink_rx_total_bytes - last_value(nvlink_rx_total_bytes) OVER before AS nvlink_rx_bytes,
        pcie_tx_total_bytes - last_value(pcie_tx_total_bytes) OVER before AS pcie_tx_bytes,
        pcie_rx_total_bytes - last_value(pcie_rx_total_bytes) OVER before AS pcie_rx_bytes,
        pcie_replay_total - last_value(pcie_replay_total) OVER before AS pcie_replays,
        nvlink_errors_total - last_value(nvlink_errors_total) OVER before AS nvlink_errors,
        ecc_sbe_volatile_total - last_value(ecc_sbe_volatile_total) OVER before AS ecc_sbe,
        ecc_dbe_volatile_total - last_value(ecc_dbe_volatile_total) OVER before AS ecc_dbe
    FROM (
        SELECT
            *,
            -- The sum of those that are told; absent where none is.
            CASE WHEN coalesce(
                nvlink_crc_flit_errors_total, nvlink_crc_data_errors_total,
                nvlink_replay_errors_total, nvlink_recovery_errors_total
            ) IS NOT NULL THEN
                coalesce(nvlink_crc_flit_errors_total, 0) + coalesce(nvlink_crc_data_errors_total, 0)
                + coalesce(nvlink_replay_errors_total, 0) + coalesce(nvlink_recovery_errors_total, 0)
            END AS nvlink_errors_total
        FROM gpu_samples
    )
    WINDOW before AS (
        PARTITION BY gpu_uuid, mig_instance, source, service_instance_id
        ORDER BY time
        -- A filter on time reads only this much more than it asks for.
        RANGE BETWEEN INTERVAL '5 minutes' PRECEDING AND INTERVAL '1 microsecond' PRECEDING
    )
)
