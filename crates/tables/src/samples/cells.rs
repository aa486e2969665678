//! The measured values of a row under construction.

/// One value per column, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cells<const N: usize> {
    cells: [Cell; N],
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    value: f64,
    /// How good the source of the value is: 0 is the best.
    rank: u8,
    /// The workload on whose row the value was; `u16::MAX` for a row of the device itself.
    owner: u16,
}

/// A cell without a value.
const EMPTY: Cell = Cell {
    value: f64::NAN,
    rank: u8::MAX,
    owner: u16::MAX,
};

/// What became of a value that was put into a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is the cell's value, or equals it.
    Stored,
    /// The cell has a better one.
    Worse,
    /// The cell has another value from the same kind of row; it stays.
    Differs,
    /// Rows of several workloads have different values, and none is the device's.
    Parts,
}

impl<const N: usize> Default for Cells<N> {
    fn default() -> Self {
        Self { cells: [EMPTY; N] }
    }
}

impl<const N: usize> Cells<N> {
    pub(super) fn value(&self, idx: usize) -> Option<f64> {
        let value = self.cells[idx].value;
        (!value.is_nan()).then_some(value)
    }

    /// Puts a value where no better one is: a lower rank is better, and of equal ranks the value of
    /// the device's own row (no owner) is better than that of a workload's.
    pub(super) fn put(&mut self, idx: usize, value: f64, rank: u8, owner: Option<u16>) -> Put {
        let owner = owner.unwrap_or(u16::MAX);
        let cell = &mut self.cells[idx];
        let new = Cell { value, rank, owner };
        let is_device = |cell: &Cell| cell.owner == u16::MAX;
        if rank < cell.rank || (rank == cell.rank && is_device(&new) && !is_device(cell)) {
            *cell = new;
            return Put::Stored;
        }
        if rank > cell.rank || (!is_device(&new) && is_device(cell)) {
            return Put::Worse;
        }
        if cell.value.total_cmp(&value).is_eq() {
            Put::Stored
        } else if owner == cell.owner {
            Put::Differs
        } else {
            Put::Parts
        }
    }

    /// Adds to what is there, of series that differ in one label.
    pub(super) fn add(&mut self, idx: usize, value: f64) {
        let cell = &mut self.cells[idx];
        cell.value = if cell.value.is_nan() {
            value
        } else {
            cell.value + value
        };
        cell.rank = 0;
    }

    /// How good the cell's source is; 255 without a value.
    pub(super) fn rank(&self, idx: usize) -> u8 {
        self.cells[idx].rank
    }

    pub(super) fn replace(&mut self, idx: usize, value: f64, rank: u8) {
        let owner = EMPTY.owner;
        self.cells[idx] = Cell { value, rank, owner };
    }

    /// Is the value from a row that names a workload?
    pub(super) fn is_owned(&self, idx: usize) -> bool {
        self.cells[idx].owner != u16::MAX
    }

    /// All values; NaN for none.
    pub(super) fn values(&self) -> [f64; N] {
        self.cells.map(|cell| cell.value)
    }

    pub(super) fn clear(&mut self, idx: usize) {
        self.cells[idx].value = f64::NAN;
    }

    /// Which cells have a value, as bits.
    pub(super) fn mask(&self) -> u128 {
        const { assert!(N <= 128, "one bit per cell") };
        let bits = self.cells.iter().enumerate();
        bits.fold(0, |mask, (idx, cell)| {
            mask | (u128::from(!cell.value.is_nan()) << idx)
        })
    }

    /// Removes the values whose bits are set; says how many there were.
    pub(super) fn remove(&mut self, mask: u128) -> u64 {
        let removed = self.mask() & mask;
        for idx in (0..N).filter(|idx| removed >> idx & 1 == 1) {
            self.clear(idx);
        }
        u64::from(removed.count_ones())
    }
}
