//! Chooses round numbers for the axes of charts.

/// The end of an axis for values up to `highest`: a round number of which the half is round, too. 1 if there is no value.
pub fn round_up(highest: f64) -> f64 {
    if !highest.is_finite() || highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(highest.log10().floor());
    // The half of a small count would be no count.
    let factors: &[f64] = match power {
        power if power < 10.0 => &[1.0, 2.0, 4.0, 6.0, 8.0, 10.0],
        _ => &[1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0],
    };
    factors.iter().map(|factor| factor * power).find(|end| *end >= highest * 0.999_999).unwrap_or(highest)
}

/// The steps of a time axis, in seconds.
const STEPS: [f64; 20] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0,
    21_600.0, 43_200.0, 86_400.0, 172_800.0, 604_800.0,
];

/// Times with a label, at most five, from 0 to the length of the axis in seconds.
pub fn times(length: f64) -> Vec<(f64, String)> {
    let step = STEPS.into_iter().find(|step| length / step <= 4.5).unwrap_or(length / 4.0);
    let count = if step > 0.0 { (length / step).floor().min(5.0) as usize } else { 0 };
    (0..=count).map(|index| index as f64 * step).map(|time| (time, time_label(time))).collect()
}

/// A round time: `30 s`, `5 m`, `1 h 30 m`, `2 d`.
fn time_label(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let part = |count: u64, unit: &str| if count > 0 { format!(" {count} {unit}") } else { String::new() };
    match seconds {
        0 => "0".into(),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} m{}", seconds / 60, part(seconds % 60, "s")),
        3_600..86_400 => format!("{} h{}", seconds / 3_600, part(seconds / 60 % 60, "m")),
        _ => format!("{} d{}", seconds / 86_400, part(seconds / 3_600 % 24, "h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_axes_are_round_and_not_below_the_highest_value() {
        for (highest, end) in
            [(0.0, 1.0), (0.3, 0.4), (1.0, 1.0), (1.1, 2.0), (7.0, 8.0), (11.0, 12.0), (999.0, 1_000.0)]
        {
            assert!((round_up(highest) - end).abs() < 1e-9, "{highest}");
        }
        assert_eq!((round_up(f64::NAN), round_up(f64::INFINITY), round_up(-1.0)), (1.0, 1.0, 1.0));
        let most = u64::MAX as f64;
        assert!(round_up(most) >= most);
    }

    #[test]
    fn time_axes_have_few_round_labels() {
        let labels = |length| times(length).into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ");
        assert_eq!(labels(3.0), "0 1 s 2 s 3 s");
        assert_eq!(labels(90.0), "0 30 s 1 m 1 m 30 s");
        assert_eq!(labels(5_400.0), "0 30 m 1 h 1 h 30 m");
        for length in [0.0, 1.0, 59.0, 86_400.0 * 3.0, f64::from(u32::MAX)] {
            let times = times(length);
            assert!((1..=6).contains(&times.len()) && times.iter().all(|(time, _)| *time <= length));
        }
    }
}
