/**
 * Five known systems as policies, one namespace for each. Each has a `policy`, and what else of the system has a
 * number; where it differs from the system's document is written in its module.
 *
 * They are for those who come from one of these systems, and for comparing: the default, `RecoveryPolicy.interactive`,
 * is what we would take.
 *
 * **Example**
 *
 * ```ts
 * const Model = Failover.layer(chain, { policy: Presets.codebuddy.policy })
 * ```
 */
export * as claw0 from "./Claw0.ts"
export * as codebuddy from "./Codebuddy.ts"
export * as decision037 from "./Decision037.ts"
export * as nexo from "./Nexo.ts"
export * as s11 from "./S11.ts"
