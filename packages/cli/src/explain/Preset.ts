/**
 * The policies that have a name on the command line.
 */
import { RecoveryPolicy } from "@outlast/agent"

export const presets = {
  interactive: RecoveryPolicy.interactive,
  background: RecoveryPolicy.background
} as const

export type Preset = keyof typeof presets

export const presetNames: ReadonlyArray<string> = Object.keys(presets)

export const isPreset = (name: string): name is Preset => Object.hasOwn(presets, name)
