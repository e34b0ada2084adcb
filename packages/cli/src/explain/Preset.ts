/** The policies that can be named on the command line. */
import { Presets, RecoveryPolicy } from "@outlast/agent"
import type { Preset } from "./PresetName.ts"

const { claw0, codebuddy, decision037, nexo, s11 } = Presets

/** Each preset has its own classes. */
export const presets: Readonly<Record<Preset, RecoveryPolicy.RecoveryPolicy<string>>> = {
  interactive: RecoveryPolicy.interactive,
  background: RecoveryPolicy.background,
  codebuddy: codebuddy.policy,
  decision037: decision037.policy,
  s11: s11.policy,
  nexo: nexo.policy,
  claw0: claw0.policy
}

const deviations: Readonly<Record<Preset, ReadonlyArray<string>>> = {
  interactive: [],
  background: [],
  codebuddy: codebuddy.deviations,
  decision037: decision037.deviations,
  s11: s11.deviations,
  nexo: nexo.deviations,
  claw0: claw0.deviations
}

/** Where a preset differs from the document of its system. Empty for the policies that follow no document. */
export const deviationsOf = (preset: Preset): ReadonlyArray<string> => deviations[preset]
