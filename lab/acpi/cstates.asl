/*
 * Idle and frequency states for the four CPUs of a lab guest.
 *
 * QEMU gives a guest neither: without this table the kernel has no idle driver to speak of and no
 * frequency driver at all, and the knobs for both could only be tested on real machines. Nothing
 * behind the registers works. The kernel does not notice: it enters every state by HLT or by reading a
 * port that nobody answers, and "changes the frequency" by writing to one. So the sysfs files appear, keep what
 * is written and are counted, which is what the scenario tests. No duration measured here means
 * anything.
 *
 * The three exit latencies, 2, 10 and 124 us, are those the scenario looks for.
 */
DefinitionBlock ("cstates.aml", "SSDT", 2, "QCLAB", "CSTATES", 1)
{
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)
    External (\_SB.CPUS.C002, DeviceObj)
    External (\_SB.CPUS.C003, DeviceObj)

    Scope (\_SB)
    {
        /* Register, type, exit latency in us, power in mW */
        Name (QCST, Package ()
        {
            3,
            Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 2, 1000 },
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x614) }, 2, 10, 500 },
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x614) }, 2, 124, 200 }
        })

        /* Control and status register of the frequency: port 0xB3, which keeps what is written */
        Name (QPCT, Package ()
        {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0xB3) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0xB3) }
        })

        /* MHz, power in mW, transition and bus-master latency in us, value to write, value to read */
        Name (QPSS, Package ()
        {
            Package () { 3400, 65000, 10, 10, 0x22, 0x22 },
            Package () { 2000, 30000, 10, 10, 0x14, 0x14 },
            Package () { 800, 10000, 10, 10, 0x08, 0x08 }
        })
    }

    Scope (\_SB.CPUS.C000)
    {
        Method (_CST) { Return (QCST) }
        Method (_PCT) { Return (QPCT) }
        Method (_PSS) { Return (QPSS) }
        Method (_PPC) { Return (0) }
    }

    Scope (\_SB.CPUS.C001)
    {
        Method (_CST) { Return (QCST) }
        Method (_PCT) { Return (QPCT) }
        Method (_PSS) { Return (QPSS) }
        Method (_PPC) { Return (0) }
    }

    Scope (\_SB.CPUS.C002)
    {
        Method (_CST) { Return (QCST) }
        Method (_PCT) { Return (QPCT) }
        Method (_PSS) { Return (QPSS) }
        Method (_PPC) { Return (0) }
    }

    Scope (\_SB.CPUS.C003)
    {
        Method (_CST) { Return (QCST) }
        Method (_PCT) { Return (QPCT) }
        Method (_PSS) { Return (QPSS) }
        Method (_PPC) { Return (0) }
    }
}
