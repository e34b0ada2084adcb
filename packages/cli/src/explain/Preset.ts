/** The policies that can be named on the command line. */
import { Presets, RecoveryPolicy } from "@outlast/agent"

const { claw0, codebuddy, decision037, nexo, s11 } = Presets

const named = {
  interactive: RecoveryPolicy.interactive,
  background: RecoveryPolicy.background,
  codebuddy: codebuddy.policy,
  decision037: decision037.policy,
  s11: s11.policy,
  nexo: nexo.policy,
  claw0: claw0.policy
} as const

export type Preset = keyof typeof named

/** Each preset has its own classes. */
export const presets: Readonly<Record<Preset, RecoveryPolicy.RecoveryPolicy<string>>> = named

export const presetNames: ReadonlyArray<string> = Object.keys(presets)

/** Where a preset differs from the document of its system. Empty for the policies that follow no document. */
export const deviationsOf = (preset: Preset): ReadonlyArray<string> =>
  preset === "interactive" || preset === "background" ? [] : Presets[preset].deviations

export const isPreset = (name: string): name is Preset => Object.hasOwn(presets, name)
